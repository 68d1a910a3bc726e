#include "runner/commands/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <vector>

#include "runner/commands/flag_values.h"
#include "runner/commands/wrapped_text.h"
#include "runner/system/processors.h"

// CLI11 takes long to compile, so all flags are in this one file.
namespace runnel {
namespace {

constexpr uint32_t kMaxScoreTop = 1000;
constexpr uint32_t kMaxRepeats = 1000;
constexpr uint32_t kMaxGpuDevice = 255;
constexpr int kMaxDescriptor = 1 << 20;
constexpr uint32_t kMaxRunners = 16;
constexpr double kMinFraction = 0.001;
constexpr double kMinUtilization = 0.001;

// The result of a check as CLI11 wants it: empty, or what is wrong.
std::string complaint_of(const Result<void>& checked) {
  return checked ? std::string() : checked.error().message;
}

// This check is needed because CLI11 reads a number that exceeds 64 bits as the largest one that fits.
const CLI::Validator kWholeNumber(
    [](const std::string& text) { return complaint_of(check_whole_number(text)); }, "UINT64");
const CLI::Validator kFileIdentity(
    [](const std::string& text) { return complaint_of(check_file_identity(text)); }, "");

// Returns the value, or throws the exception by which CLI11 learns that a value is wrong.
template <typename T>
T or_throw(const std::string& flag, const Result<T>& value) {
  if (!value) throw CLI::ValidationError(flag, value.error().message);
  return *value;
}

// The groups of flags in the help.
constexpr const char* kModel = "Model";
constexpr const char* kDevices = "Devices";
constexpr const char* kScheduling = "Scheduling";
constexpr const char* kKvCache = "KV cache";
constexpr const char* kSampling = "Sampling";
constexpr const char* kInputOutput = "Input and output";
constexpr const char* kSecurity = "Security";
constexpr const char* kDebugging = "Debugging";
constexpr const char* kMeasurement = "Measurement";
constexpr const char* kGeneral = "General";

// Flags in two columns, within 100 characters.
class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat() { column_width(kDescriptionColumn); }

  // The name of the value, without the limits that CLI11 adds to it.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    const std::string type = option->get_type_name();
    const std::string name = type.substr(0, type.find(':'));
    if (name.empty()) return "";
    return " " + (name == "UINT" ? "N" : name == "FLOAT" ? "X" : name);
  }

  // The description with the default.
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (option->get_required()) text += " (required)";
    const std::string fallback = option->get_default_str();
    if (!fallback.empty()) text += " (default: " + fallback + ")";
    return wrapped(text, kHelpColumns - kDescriptionColumn);
  }

 private:
  static constexpr size_t kHelpColumns = 100;
  static constexpr size_t kDescriptionColumn = 32;
};

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

void add_activations_flag(CLI::App& command, EngineFlags& flags, bool uses_gpu) {
  command
      .add_option_function<std::string>(
          "--activations",
          [&flags, uses_gpu](const std::string& name) {
            flags.activations = or_throw("--activations", activation_type_from(name, uses_gpu));
          },
          "Activations in matrix products; i8: 8 bits, with a scale for each 32 values; f32: not rounded, "
          "slower, only on the CPU")
      ->type_name("i8|f32")
      ->default_str(std::string(activation_type_name(flags.activations)))
      ->group(kDevices);
}

void add_weights_file_flags(CLI::App& command, EngineFlags& flags) {
  CLI::Option* const share =
      command
          .add_flag("--share-weights", flags.share_weights,
                    "Pack the weights into a sealed file in memory, which other runners can use")
          ->group(kModel);
  command
      .add_option("--weights-fd", flags.weights_fd,
                  "Descriptor of such a file with this model's weights, which are then not packed again")
      ->type_name("N")
      ->check(CLI::Range(STDERR_FILENO + 1, kMaxDescriptor))
      ->excludes(share)
      ->group(kModel);
}

void refuse_weights_file_flags(CLI::App& command) {
  for (const char* name : {"--share-weights", "--weights-fd"}) {
    command
        .add_option_function<std::string>(
            name,
            [name](const std::string&) {
              throw CLI::ValidationError(name,
                                         "is for cpu-runner; cuda-runner keeps the weights on its device");
            })
        ->expected(0, 1)
        ->group("");
  }
}

void add_cpu_flags(CLI::App& command, EngineFlags& flags) {
  add_weights_file_flags(command, flags);
  command.add_option("--threads", flags.num_threads, "Threads that compute")
      ->check(CLI::Range(1u, kMaxThreads))
      ->default_str("one for each usable processor")
      ->group(kDevices);
  command.add_option("--isa", flags.isa, "Instruction set")
      ->type_name("portable|avx2|avxvnni|avx512vnni")
      ->default_str("the best that the processor has")
      ->group(kDevices);
  command
      .add_option(
          "--memory-bytes", flags.memory_bytes,
          "Memory of the whole process, in place of --kv-cache-bytes: the KV cache gets what the model "
          "and a 32nd for requests leave")
      ->type_name("BYTES")
      ->check(kWholeNumber)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()))
      ->excludes(command.get_option("--kv-cache-bytes"))
      ->excludes(command.get_option("--num-kvcache-blocks"))
      ->group(kKvCache);
  command
      .add_option(
          "--kv-fd", flags.kv_fd,
          "Descriptor of a memfd of fixed size that holds the KV cache, which the next process that is "
          "given it takes over")
      ->type_name("N")
      ->check(CLI::Range(3, kMaxDescriptor))
      ->group(kKvCache);
  command
      .add_option("--kv-from", flags.kv_from,
                  "Descriptors of such memory of other runners, in which blocks of a request that comes from "
                  "there are looked for")
      ->type_name("N")
      ->check(CLI::Range(3, kMaxDescriptor))
      ->needs(command.get_option("--kv-fd"))
      ->group(kKvCache);
  command
      .add_option("--runners", flags.num_runners,
                  "Runners with this model on this machine; each takes an equal part of the memory at most")
      ->check(CLI::Range(1u, kMaxRunners))
      ->capture_default_str()
      ->group(kKvCache);
  command
      .add_option_function<std::string>("--gpu-memory-utilization",
                                        [](const std::string&) {
                                          throw CLI::ValidationError(
                                              "--gpu-memory-utilization",
                                              "is a share of a GPU's memory; use --memory-bytes");
                                        })
      ->group("");
}

void add_gpu_flags(CLI::App& command, EngineFlags& flags) {
  refuse_weights_file_flags(command);
  command.add_option("--gpu-device", flags.gpu_device, "Number of the GPU, as `devices` lists it")
      ->check(CLI::Range(0u, kMaxGpuDevice))
      ->capture_default_str()
      ->group(kDevices);
  command
      .add_flag("--enforce-eager", flags.enforce_eager,
                "Launch each kernel by itself instead of in CUDA graphs")
      ->group(kDevices);
  command
      .add_option("--gpu-memory-utilization", flags.gpu_memory_utilization,
                  "Share of the device's memory for everything on it, other programs included, in place of "
                  "--kv-cache-bytes: the KV cache gets what is left")
      ->type_name("SHARE")
      ->check(CLI::Range(kMinUtilization, 1.0))
      ->excludes(command.get_option("--kv-cache-bytes"))
      ->excludes(command.get_option("--num-kvcache-blocks"))
      ->group(kKvCache);
}

CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& is_on,
                        const std::string& description) {
  return command
      .add_option_function<std::string>(
          name, [&is_on](const std::string& value) { is_on = value == "on"; }, description)
      ->type_name("on|off")
      ->check(CLI::IsMember({"on", "off"}).description(""))
      ->default_str(is_on ? "on" : "off");
}

void add_kv_cache_flags(CLI::App& command, EngineFlags& flags, bool uses_gpu) {
  command
      .add_option("--block-size,--kvcache-block-size", flags.block_size,
                  "Tokens per block, a power of two from 8 to 256")
      ->capture_default_str()
      ->group(kKvCache);
  command
      .add_option(
          "--available-bytes", flags.available_bytes,
          "Memory that is counted as available at most, for the size of the KV cache and for the check "
          "before the load")
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
                            ? "half of what weights and a step leave"
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
      .add_option_function<uint32_t>(
          "--tensor-parallel-size",
          [](uint32_t num_devices) {
            if (num_devices != 1)
              throw CLI::ValidationError("--tensor-parallel-size", "must be 1: one device computes a model");
          },
          "Devices that compute one model; only 1 is supported")
      ->type_name("N")
      ->default_str("1")
      ->group(kDevices);
}

CLI::Option* add_num_seqs_flag(CLI::App& command, EngineFlags& flags) {
  return command.add_option("--max-num-seqs", flags.max_num_seqs, "Maximum sequences per step")
      ->check(CLI::Range(1u, kMaxNumSeqs))
      ->capture_default_str()
      ->group(kScheduling);
}

// Reads the list with ids_from(), because CLI11's own lists drop empty entries.
CLI::Option* add_ids_flag(CLI::App& command, const std::string& name, std::vector<uint32_t>& ids,
                          const std::string& description) {
  return command
      .add_option_function<std::string>(
          name, [name, &ids](const std::string& text) { ids = or_throw(name, ids_from(text)); }, description)
      ->type_name("ID,ID,...");
}

CLI::Option* add_prompt_flag(CLI::App& command, std::vector<uint32_t>& ids) {
  return add_ids_flag(command, "--tokens", ids, "Token ids of the prompt, such as 1,2,3")
      ->required()
      ->group(kInputOutput);
}

// What draws choose from, for commands that draw.
std::vector<CLI::Option*> add_draw_flags(CLI::App& command, SamplingParams& sampling) {
  return {command.add_option("--temperature", sampling.temperature, "0: always the most likely token"),
          command.add_option("--top-k", sampling.top_k, "Sample from the N most likely tokens; 0: all"),
          command.add_option("--top-p", sampling.top_p,
                             "Sample from the most likely tokens whose probabilities add up to X; 1: all")};
}

void add_generate_flags(CLI::App& command, GenerateFlags& flags) {
  SamplingParams& sampling = flags.sampling;
  const auto sampled = [&](const char* name, auto& value, const char* description) {
    return command.add_option(name, value, description)->capture_default_str()->group(kSampling);
  };
  add_prompt_flag(command, flags.tokens);
  sampled("--max-tokens", flags.max_tokens, "Maximum tokens to generate");
  sampled("--min-tokens", flags.min_tokens, "Minimum tokens before one of --stop-ids is sampled");
  add_ids_flag(command, "--stop-ids", flags.stop_ids, "Token ids that end the answer")->group(kSampling);
  add_ids_flag(command, "--allowed-ids", sampling.allowed_ids, "Token ids to sample from")
      ->default_str("all")
      ->group(kSampling);
  add_ids_flag(command, "--banned-ids", sampling.banned_ids, "Token ids that are not sampled")
      ->group(kSampling);
  for (CLI::Option* option : add_draw_flags(command, sampling))
    option->capture_default_str()->group(kSampling);
  sampled("--min-p", sampling.min_p,
          "Sample from tokens with at least this share of the most likely token's probability; 0: all");
  sampled("--repetition-penalty", sampling.repetition_penalty,
          "Above 1: tokens of the prompt and of the answer become less likely; 1: off");
  sampled("--presence-penalty", sampling.presence_penalty,
          "Lower the logit of each token that is in the answer; 0: off");
  sampled("--frequency-penalty", sampling.frequency_penalty,
          "Lower a token's logit for each time it is in the answer; 0: off");
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& texts) {
            for (const std::string& text : texts)
              sampling.logit_bias.push_back(or_throw("--logit-bias", bias_from(text)));
          },
          "Add BIAS to the logit of this token id; can be repeated")
      ->type_name("ID=BIAS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kSampling);
  sampled("--seed", sampling.seed, "Seed of the random numbers, up to 64 bits")->check(kWholeNumber);
  command
      .add_option("--logprobs", flags.logprobs,
                  "With --json: log-probabilities, also of the N most likely tokens")
      ->group(kInputOutput);
  command
      .add_option("--prompt-logprobs", flags.prompt_logprobs,
                  "With --json: the same for the prompt, from its second token on")
      ->group(kInputOutput);
}

void add_serve_flags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option(
          "--expect-file", flags.expected_file,
          "Refuse any other file at the model's path: size, modification time in ns, inode and device")
      ->type_name("SIZE-TIME-INODE-DEVICE")
      ->check(kFileIdentity)
      ->group(kModel);
  command
      .add_flag("--json-frames", flags.json_frames,
                "One JSON object per line instead of frames, in both directions")
      ->group(kInputOutput);
  CLI::Option* const record =
      command.add_option("--record", flags.record, "Record all messages to this file, for replay")
          ->type_name("FILE")
          ->group(kDebugging);
  // A replay begins with an empty cache.
  if (CLI::Option* const kv_fd = command.get_option_no_throw("--kv-fd")) record->excludes(kv_fd);
  command.add_option("--record-max-bytes", flags.record_max_bytes, "Maximum size of the recording")
      ->type_name("BYTES")
      ->check(kWholeNumber)
      ->check(CLI::Range(kMinRecordMaxBytes, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str()
      ->group(kDebugging);
  command
      .add_option_function<std::string>(
          "--sandbox",
          [&flags](const std::string& name) {
            flags.sandbox = or_throw("--sandbox", sandbox_mode_from(name));
          },
          "strict: refuse to start without all parts of the sandbox; auto: use the parts that the kernel has")
      ->type_name("strict|auto|off")
      ->default_str(std::string(sandbox_mode_name(flags.sandbox)))
      ->group(kSecurity);
}

void add_replay_flags(CLI::App& command, ReplayFlags& flags) {
  command.add_option("FILE", flags.file, "Recording that serve --record wrote")->type_name("")->required();
  command.add_option("--model", flags.model, "Path of the model, if it is no longer where it was")
      ->type_name("PATH")
      ->group(kModel);
  command.add_option("--until", flags.until_step, "Last step to compute")
      ->check(kWholeNumber)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()))
      ->default_str("all")
      ->group(kDebugging);
}

void add_synth_flags(CLI::App& command, SynthFlags& flags) {
  command.add_option("--arch", flags.architecture, "Architecture")
      ->type_name("llama")
      ->required()
      ->check(CLI::IsMember({"llama"}).description(""))
      ->group(kModel);
  command
      .add_option("--shape", flags.shape,
                  "Shape of llama-160m, Llama 3.2 1B or Llama 3.1 8B: " + llama_shape_names())
      ->type_name("NAME")
      ->required()
      ->group(kModel);
  command
      .add_option_function<std::string>(
          "--type",
          [&flags](const std::string& name) { flags.type = or_throw("--type", tensor_type_from(name)); },
          "Type of the matrices: " + tensor_type_names())
      ->type_name("TYPE")
      ->default_str("q4_1")
      ->group(kModel);
  command.add_option("--seed", flags.seed, "Seed of the random weights, up to 64 bits")
      ->check(kWholeNumber)
      ->capture_default_str()
      ->group(kModel);
  command.add_option("FILE", flags.file, "File to write, which must not exist yet")
      ->type_name("")
      ->required();
}

// A flag that belongs to one kind of benchmark is refused in the others.
void add_bench_flags(CLI::App& command, Flags& flags) {
  CLI::Option* const workload =
      command.add_flag("--workload", flags.is_workload_bench, "Serve nano-vLLM's 256 requests instead")
          ->group(kMeasurement);
  CLI::Option* const long_prompt =
      command
          .add_option("--long-prompt", flags.gap.num_prompt_tokens,
                      "Measure instead the gaps of running streams when a prompt of N tokens arrives")
          ->check(CLI::Range(1u, kMaxModelLen))
          ->excludes(workload)
          ->group(kMeasurement);

  CLI::Option* const kernels =
      command
          .add_flag("--kernels", flags.is_kernel_bench,
                    "Measure instead each operation of a decode step, and a copy of memory")
          ->excludes(workload)
          ->excludes(long_prompt)
          ->group(kMeasurement);
  // These flags configure an engine, which --kernels does not use.
  for (const char* name :
       {"--max-model-len", "--max-num-batched-tokens", "--mixed-batches", "--mixed-prefill-tokens",
        "--kv-cache-bytes", "--num-kvcache-blocks", "--memory-bytes", "--available-bytes", "--runners",
        "--gpu-memory-utilization", "--enforce-eager"})
    if (CLI::Option* option = command.get_option_no_throw(name)) kernels->excludes(option);

  const auto for_table = [&](CLI::Option* option) {
    return option->excludes(workload)->excludes(long_prompt)->capture_default_str()->group(kMeasurement);
  };
  for_table(command
                .add_option("--prompt", flags.bench.num_prompt_tokens,
                            "Tokens of the prompt; with --kernels: positions of each sequence")
                ->check(CLI::Range(1u, kMaxModelLen)));
  for_table(command.add_option("--generate", flags.bench.num_generated, "Tokens to decode")
                ->check(CLI::Range(1u, kMaxModelLen)))
      ->excludes(kernels);
  for_table(command.add_option("--depth", flags.bench.depth, "Tokens of each sequence before it decodes")
                ->check(CLI::Range(1u, kMaxModelLen)))
      ->excludes(kernels);
  for_table(command.add_option("--batch", flags.bench.batches, "Sequences decoded at once; each is measured")
                ->delimiter(',')
                ->check(CLI::Range(1u, kMaxNumSeqs)))
      ->type_name("N,...")
      ->default_str("1,8,32");
  for_table(command
                .add_option("--repeats", flags.bench.num_repeats,
                            "Runs, of which the median counts; with --kernels by default " +
                                std::to_string(flags.kernels.num_repeats))
                ->check(CLI::Range(1u, kMaxRepeats)));
  for (CLI::Option* option : add_draw_flags(command, flags.bench.sampling)) for_table(option)->excludes(kernels);

  command
      .add_option("--fraction", flags.workload.fraction,
                  "With --workload: share of the requests, from the first on")
      ->check(CLI::Range(kMinFraction, 1.0))
      ->needs(workload)
      ->capture_default_str()
      ->group(kMeasurement);
  command.add_option("--warmup", flags.workload.num_warmups, "With --workload: runs that do not count")
      ->check(CLI::Range(0u, kMaxRepeats))
      ->needs(workload)
      ->capture_default_str()
      ->group(kMeasurement);
  command.add_option("--iters", flags.workload.num_iterations, "With --workload: runs that count")
      ->check(CLI::Range(1u, kMaxRepeats))
      ->needs(workload)
      ->capture_default_str()
      ->group(kMeasurement);
  add_num_seqs_flag(command, flags.engine)
      ->needs(workload)
      ->description("With --workload: maximum sequences per step");
  command.add_option("--streams", flags.gap.num_streams, "With --long-prompt: running streams")
      ->check(CLI::Range(1u, kMaxNumSeqs - 1))
      ->needs(long_prompt)
      ->capture_default_str()
      ->group(kMeasurement);
}

}  // namespace

void add_commands(CLI::App& app, bool uses_gpu, Flags& flags) {
  if (uses_gpu) flags.engine.set_gpu_defaults();
  // Commands take over the format of the application.
  app.formatter(std::make_shared<HelpFormat>());
  CLI::App& generate_command = *app.add_subcommand("generate", "Continue a prompt");
  CLI::App& score_command = *app.add_subcommand("score", "Print the log-probabilities of given tokens");
  CLI::App& checkpoint_command =
      *app.add_subcommand("checkpoint", "Write what the first layer computes, step by step");
  CLI::App& inspect_command = *app.add_subcommand("inspect", "Print what a model file contains");
  CLI::App& bench_command = *app.add_subcommand("bench", "Measure tokens per second");
  CLI::App& serving_command =
      *app.add_subcommand("serve", "Serve the protocol of docs/protocol.md on stdin and stdout");
  for (CLI::App* command : app.get_subcommands({})) add_model_flags(*command, flags);
  CLI::App& replay_app =
      *app.add_subcommand("replay", "Compute a session again that serve --record recorded");
  if (!uses_gpu) {
    app.add_subcommand("memory",
                       "Make memory for a KV cache, print its descriptor, and hold it until stdin ends");
  }
  CLI::App& synth_command = *app.add_subcommand("synth", "Write a model file of random weights");
  for (CLI::App* command : {&generate_command, &score_command, &checkpoint_command, &inspect_command,
                            &bench_command, &serving_command}) {
    add_engine_flags(*command, flags.engine, uses_gpu);
    add_activations_flag(*command, flags.engine, uses_gpu);
    if (uses_gpu) {
      add_gpu_flags(*command, flags.engine);
    } else {
      add_cpu_flags(*command, flags.engine);
    }
  }
  add_num_seqs_flag(inspect_command, flags.engine);
  for (CLI::App* command : {&generate_command, &serving_command})
    add_switch(
        *command, "--speculation", flags.engine.speculation,
        "N-gram speculative decoding: several tokens per step where an answer repeats earlier text; the "
        "tokens stay the same")
        ->group(kScheduling);
  for (CLI::App* command : {&generate_command, &inspect_command, &bench_command})
    command->add_flag("--json", flags.json, "Print one JSON object")->group(kInputOutput);
  if (uses_gpu)
    app.add_subcommand("devices", "List the GPUs, and say whether each runs a kernel")
        ->add_flag("--json", flags.json, "Print one JSON object")
        ->group(kInputOutput);
  add_generate_flags(generate_command, flags.generate);
  add_prompt_flag(checkpoint_command, flags.checkpoint.token_ids);
  // Runs before the command's own flags are read.
  checkpoint_command.preparse_callback([&flags](size_t) { flags.engine.kv_cache_type = kCheckpointKvType; });
  checkpoint_command.get_option("--kv-cache-type")->default_str(std::string(kv_type_name(kCheckpointKvType)));
  checkpoint_command.add_option("--out", flags.checkpoint.out, "Folder to write to")
      ->type_name("FOLDER")
      ->required()
      ->group(kInputOutput);
  checkpoint_command
      .add_option("--max-tokens", flags.checkpoint.max_tokens, "Greedy tokens that follow the prompt")
      ->capture_default_str()
      ->group(kSampling);
  score_command.add_option("--tokens-file", flags.tokens_file, "JSON array of token ids")
      ->type_name("FILE")
      ->required()
      ->group(kInputOutput);
  score_command.add_option("--top", flags.num_top, "Most likely tokens to print for each position")
      ->check(CLI::Range(0u, kMaxScoreTop))
      ->capture_default_str()
      ->group(kInputOutput);
  add_bench_flags(bench_command, flags);
  add_num_seqs_flag(serving_command, flags.engine);
  add_serve_flags(serving_command, flags.serve);
  add_replay_flags(replay_app, flags.replay);
  add_synth_flags(synth_command, flags.synth);
  // Added again so that it comes last.
  for (CLI::App* command : app.get_subcommands({}))
    command->set_help_flag("-h,--help", "Print this help")->group(kGeneral);
}

}  // namespace runnel
