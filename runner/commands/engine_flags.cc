#include <limits>

#include "runner/commands/flag_groups.h"
#include "runner/commands/flag_values.h"

namespace runnel {
namespace {

void add_kv_cache_flags(CLI::App& command, EngineFlags& flags, bool uses_gpu) {
  command
      .add_option("--block-size,--kvcache-block-size", flags.block_size,
                  "Tokens per block, a power of two from 8 to 256")
      ->capture_default_str()
      ->group(kKvCache);
  command
      .add_option(
          "--available-bytes", flags.available_bytes,
          "Memory that is counted as available at most, for all runners together, for the size of the KV "
          "cache and for the check before the load")
      ->type_name("BYTES")
      ->check(kWholeNumber)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()))
      ->default_str("all that is")
      ->group(kKvCache);
  CLI::Option* const kv_cache_bytes =
      command
          .add_option("--kv-cache-bytes", flags.kv_cache_bytes,
                      "Size of the KV cache; never more than requests can use")
          ->type_name("BYTES")
          ->check(kWholeNumber)
          ->default_str(uses_gpu
                            ? "what --gpu-memory-utilization leaves; with --available-bytes half of what "
                              "weights and a step do"
                            : "a quarter of what weights and a step leave; up to half of it for one whole "
                              "context")
          ->group(kKvCache);
  command
      .add_option_function<std::string>(
          "--num-kvcache-blocks",
          [&flags](const std::string& text) {
            flags.num_kvcache_blocks = or_throw("--num-kvcache-blocks", kvcache_blocks_from(text));
          },
          "Size of the KV cache in blocks, in place of --kv-cache-bytes; -1: the default")
      ->type_name("N")
      ->excludes(kv_cache_bytes)
      ->group(kKvCache);
  command
      .add_option_function<std::string>(
          "--kv-cache-type",
          [&flags](const std::string& name) {
            flags.kv_cache_type = or_throw("--kv-cache-type", kv_type_from(name));
          },
          "Type of the keys and values: " + kv_type_names() + "; q8_0 takes about half of f16")
      ->type_name("TYPE")
      ->default_str(std::string(kv_type_name(flags.kv_cache_type)))
      ->group(kKvCache);
}

}  // namespace

CLI::Option* add_num_seqs_flag(CLI::App& command, EngineFlags& flags) {
  return command.add_option("--max-num-seqs", flags.max_num_seqs, "Maximum sequences per step")
      ->check(CLI::Range(1u, kMaxNumSeqs))
      ->capture_default_str()
      ->group(kScheduling);
}

void add_model_flags(CLI::App& command, Flags& flags) {
  command.add_option("--model", flags.engine.model, "GGUF file, or folder with config.json and safetensors")
      ->type_name("PATH")
      ->required()
      ->group(kModel);
  command.add_option("--architecture", flags.engine.architecture, "Refuse a file of any other architecture")
      ->type_name("NAME")
      ->group(kModel);
  command
      .add_option_function<std::string>(
          "--quantize",
          [&flags](const std::string& name) {
            flags.engine.quantize = or_throw("--quantize", quantize_type_from(name));
          },
          "Quantise float matrices while they are loaded")
      ->type_name("q8_0|q4_0")
      ->default_str("none, as in the file")
      ->group(kModel);
}

void add_engine_flags(CLI::App& command, EngineFlags& flags, bool uses_gpu) {
  command
      .add_option("--max-model-len", flags.max_model_len,
                  "Maximum context: tokens of a prompt and its answer together")
      ->default_str("the model's context, or what the KV cache holds if that is less")
      ->group(kModel);
  command
      .add_option("--max-num-batched-tokens", flags.max_num_batched_tokens,
                  "Maximum tokens per step, prompt tokens included")
      ->check(CLI::Range(1u, kMaxNumBatchedTokens))
      ->capture_default_str()
      ->group(kScheduling);
  add_switch(
      command, "--mixed-batches", flags.mixed_batches,
      "Compute next tokens and parts of prompts in one step; off: steps compute prompts alone, and first")
      ->group(kScheduling);
  command
      .add_option(
          "--mixed-prefill-tokens", flags.mixed_prefill_tokens,
          "Tokens of each waiting prompt in a step with 8 next tokens, and in proportion in other steps")
      ->check(CLI::Range(1u, kMaxNumBatchedTokens))
      ->capture_default_str()
      ->group(kScheduling);
  add_kv_cache_flags(command, flags, uses_gpu);
  command
      .add_option("--tensor-parallel-size", flags.num_ranks,
                  uses_gpu ? "GPUs that compute one model, each with a part of every matrix: that of "
                             "--gpu-device and those after it"
                           : "Processes that compute one model, each with a part of every matrix")
      ->check(CLI::Range(1u, kMaxRanks))
      ->capture_default_str()
      ->group(kDevices);
}

}  // namespace runnel
