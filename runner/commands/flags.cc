#include "runner/commands/flags.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <vector>

#include "runner/commands/flag_values.h"
#include "runner/processors.h"

namespace runnel {
namespace {

constexpr uint32_t kMaxScoreTop = 1000;
constexpr uint32_t kMaxRepeats = 1000;
constexpr uint32_t kMaxGpuDevice = 255;
constexpr double kMinFraction = 0.001;

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

void add_model_flags(CLI::App& command, Flags& flags) {
  command
      .add_option("--model", flags.engine.model,
                  "Path of a GGUF file, or of a folder with config.json and safetensors")
      ->required();
  command.add_option("--architecture", flags.engine.architecture, "Refuse a file of any other architecture");
  command
      .add_option_function<std::string>(
          "--quantize",
          [&flags](const std::string& name) {
            flags.engine.quantize = or_throw("--quantize", quantize_type_from(name));
          },
          "Quantise matrices of floats as they are loaded: q8_0, q4_0")
      ->type_name("TYPE");
}

void add_activations_flag(CLI::App& command, EngineFlags& flags, bool uses_gpu) {
  command
      .add_option_function<std::string>(
          "--activations",
          [&flags, uses_gpu](const std::string& name) {
            flags.activations = or_throw("--activations", activation_type_from(name, uses_gpu));
          },
          "What products read: i8, bytes with a scale for each 32 values; f32, of the CPU: the values, "
          "slower")
      ->type_name("TYPE")
      ->default_str(std::string(activation_type_name(flags.activations)));
}

void add_cpu_flags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option("--threads", flags.num_threads, "Threads that compute; default: every processor it may use")
      ->check(CLI::Range(1u, kMaxThreads));
  command
      .add_option("--isa", flags.isa,
                  "Instruction set that computes: portable, avx2, avxvnni, avx512vnni; default: the best the "
                  "processor has")
      ->type_name("NAME");
  command
      .add_option(
          "--memory-bytes", flags.memory_bytes,
          "Memory of the whole process: the KV cache gets what the model and a 32nd for requests leave")
      ->check(kWholeNumber)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()))
      ->excludes(command.get_option("--kv-cache-bytes"));
}

void add_gpu_flags(CLI::App& command, EngineFlags& flags) {
  command.add_option("--gpu-device", flags.gpu_device, "Number of the GPU, as `devices` has it")
      ->check(CLI::Range(0u, kMaxGpuDevice))
      ->capture_default_str();
  command.add_flag("--enforce-eager", flags.enforce_eager,
                   "Launch each operation, instead of graphs of them");
}

void add_switch(CLI::App& command, const std::string& name, bool& is_on, const std::string& description) {
  command
      .add_option_function<std::string>(
          name, [&is_on](const std::string& value) { is_on = value == "on"; },
          description + "; default: " + (is_on ? "on" : "off"))
      ->type_name("on|off")
      ->check(CLI::IsMember({"on", "off"}).description(""));
}

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  command.add_option("--max-model-len", flags.max_model_len,
                     "Tokens of prompt and answer together; default: the model's context");
  command.add_option("--max-num-batched-tokens", flags.max_num_batched_tokens, "Rows computed in one step")
      ->check(CLI::Range(1u, kMaxNumBatchedTokens))
      ->capture_default_str();
  add_switch(command, "--mixed-batches", flags.mixed_batches,
             "Whether next tokens and parts of prompts share a step");
  command
      .add_option("--mixed-prefill-tokens", flags.mixed_prefill_tokens,
                  "Rows of each waiting prompt in a step with 8 next tokens; with others in proportion")
      ->check(CLI::Range(1u, kMaxNumBatchedTokens))
      ->capture_default_str();
  command.add_option("--block-size", flags.block_size, "Tokens in a block of the KV cache, a power of two")
      ->capture_default_str();
  CLI::Option* const kv_cache_bytes =
      command.add_option("--kv-cache-bytes", flags.kv_cache_bytes, "Most memory for the KV cache")
          ->check(kWholeNumber);
  if (flags.kv_cache_bytes > 0) {
    kv_cache_bytes->capture_default_str();
  } else {
    kv_cache_bytes->default_str("half of what is free");
  }
  command
      .add_option_function<std::string>(
          "--kv-cache-type",
          [&flags](const std::string& name) {
            flags.kv_cache_type = or_throw("--kv-cache-type", kv_type_from(name));
          },
          "What keys and values are stored as: " + kv_type_names() + "; q8_0 takes about half of f16")
      ->type_name("TYPE")
      ->default_str(std::string(kv_type_name(flags.kv_cache_type)));
}

CLI::Option* add_num_seqs_flag(CLI::App& command, EngineFlags& flags) {
  return command.add_option("--max-num-seqs", flags.max_num_seqs, "Sequences computed in one step")
      ->check(CLI::Range(1u, kMaxNumSeqs))
      ->capture_default_str();
}

// Reads the list with ids_from(), because CLI11's own lists drop empty entries.
CLI::Option* add_ids_flag(CLI::App& command, const std::string& name, std::vector<uint32_t>& ids,
                          const std::string& description) {
  return command
      .add_option_function<std::string>(
          name, [name, &ids](const std::string& text) { ids = or_throw(name, ids_from(text)); }, description)
      ->type_name("ID,ID,...");
}

void add_generate_flags(CLI::App& command, GenerateFlags& flags) {
  SamplingParams& sampling = flags.sampling;
  add_ids_flag(command, "--tokens", flags.tokens, "Ids of the prompt, such as 1,2,3")->required();
  command.add_option("--max-tokens", flags.max_tokens, "Tokens to generate")->capture_default_str();
  command.add_option("--min-tokens", flags.min_tokens, "Tokens before which none of --stop-ids is drawn")
      ->capture_default_str();
  add_ids_flag(command, "--stop-ids", flags.stop_ids, "Ids that end the answer");
  add_ids_flag(command, "--allowed-ids", sampling.allowed_ids, "Ids to draw from; default: all");
  add_ids_flag(command, "--banned-ids", sampling.banned_ids, "Ids that are not drawn");
  command.add_option("--temperature", sampling.temperature, "0: the most likely token")
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "0: off")->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "1: off")->capture_default_str();
  command.add_option("--min-p", sampling.min_p, "0: off")->capture_default_str();
  command.add_option("--repetition-penalty", sampling.repetition_penalty, "1: off")->capture_default_str();
  command.add_option("--presence-penalty", sampling.presence_penalty, "0: off")->capture_default_str();
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "0: off")->capture_default_str();
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& texts) {
            for (const std::string& text : texts)
              sampling.logit_bias.push_back(or_throw("--logit-bias", bias_from(text)));
          },
          "What is added to the logit of an id; can be repeated")
      ->type_name("ID=BIAS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--seed", sampling.seed, "Any number of 64 bits")
      ->check(kWholeNumber)
      ->capture_default_str();
  command.add_option("--logprobs", flags.logprobs,
                     "With --json: log-probabilities, and of so many likely ids");
  command.add_option("--prompt-logprobs", flags.prompt_logprobs,
                     "With --json: the same for the prompt, from its second id on");
}

void add_serve_flags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option(
          "--expect-file", flags.expected_file,
          "Refuse another file than this at the model's path: its size, modification time in ns, inode "
          "and device")
      ->type_name("SIZE-TIME-INODE-DEVICE")
      ->check(kFileIdentity);
  command.add_flag("--json-frames", flags.json_frames,
                   "One JSON object a line instead of frames, both ways; for people and scripts");
  command.add_option("--record", flags.record, "Write what comes in and goes out to this file, for replay");
  command.add_option("--record-max-bytes", flags.record_max_bytes, "Size at which recording stops")
      ->check(kWholeNumber)
      ->check(CLI::Range(kMinRecordMaxBytes, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--sandbox",
          [&flags](const std::string& name) {
            flags.sandbox = or_throw("--sandbox", sandbox_mode_from(name));
          },
          "strict: no start without all of it; auto: what this kernel has; off")
      ->type_name("MODE")
      ->default_str(std::string(sandbox_mode_name(flags.sandbox)));
}

void add_replay_flags(CLI::App& command, ReplayFlags& flags) {
  command.add_option("FILE", flags.file, "A recording that serve --record wrote")->required();
  command.add_option("--model", flags.model, "Where the model is now, if not where it was");
  command.add_option("--until", flags.until_step, "The last step to compute; default: all")
      ->check(kWholeNumber)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()));
}

void add_synth_flags(CLI::App& command, SynthFlags& flags) {
  command.add_option("--arch", flags.architecture, "Architecture: llama")
      ->required()
      ->check(CLI::IsMember({"llama"}).description(""));
  command
      .add_option("--shape", flags.shape,
                  "Of llama-160m, Llama 3.2 1B or Llama 3.1 8B: " + llama_shape_names())
      ->required();
  command
      .add_option_function<std::string>(
          "--type",
          [&flags](const std::string& name) { flags.type = or_throw("--type", tensor_type_from(name)); },
          "What matrices are stored as: " + tensor_type_names())
      ->type_name("TYPE")
      ->default_str("q4_1");
  command.add_option("--seed", flags.seed, "Any number of 64 bits")
      ->check(kWholeNumber)
      ->capture_default_str();
  command.add_option("FILE", flags.file, "The file to write; there must be none of that name")->required();
}

// A flag that belongs to one kind of benchmark is refused in the others.
void add_bench_flags(CLI::App& command, Flags& flags) {
  CLI::Option* const workload =
      command.add_flag("--workload", flags.is_workload_bench, "Serve nano-vLLM's 256 requests instead");
  CLI::Option* const long_prompt =
      command
          .add_option("--long-prompt", flags.gap.num_prompt_tokens,
                      "Measure instead the gaps of running streams when a prompt of so many tokens arrives")
          ->check(CLI::Range(1u, kMaxModelLen))
          ->excludes(workload);

  CLI::Option* const kernels =
      command
          .add_flag("--kernels", flags.is_kernel_bench,
                    "Measure instead each operation of a step of next tokens, and a copy of memory")
          ->excludes(workload)
          ->excludes(long_prompt);
  // These flags configure an engine, which --kernels does not use.
  for (const char* name : {"--max-model-len", "--max-num-batched-tokens", "--mixed-batches",
                           "--mixed-prefill-tokens", "--kv-cache-bytes", "--memory-bytes", "--enforce-eager"})
    if (CLI::Option* option = command.get_option_no_throw(name)) kernels->excludes(option);

  const auto for_table = [&](CLI::Option* option) {
    return option->excludes(workload)->excludes(long_prompt)->capture_default_str();
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
  for_table(command.add_option("--batch", flags.bench.batches, "Sequences decoded at once, such as 1,8,32")
                ->delimiter(',')
                ->check(CLI::Range(1u, kMaxNumSeqs)));
  for_table(command
                .add_option("--repeats", flags.bench.num_repeats,
                            "Runs; the median counts; default with --kernels: " +
                                std::to_string(flags.kernels.num_repeats))
                ->check(CLI::Range(1u, kMaxRepeats)));

  command
      .add_option("--fraction", flags.workload.fraction, "With --workload: how much of it, from the first on")
      ->check(CLI::Range(kMinFraction, 1.0))
      ->needs(workload)
      ->capture_default_str();
  command.add_option("--warmup", flags.workload.num_warmups, "With --workload: times that do not count")
      ->check(CLI::Range(0u, kMaxRepeats))
      ->needs(workload)
      ->capture_default_str();
  command.add_option("--iters", flags.workload.num_iterations, "With --workload: times that count")
      ->check(CLI::Range(1u, kMaxRepeats))
      ->needs(workload)
      ->capture_default_str();
  add_num_seqs_flag(command, flags.engine)->needs(workload);
  command.add_option("--streams", flags.gap.num_streams, "With --long-prompt: streams that are running")
      ->check(CLI::Range(1u, kMaxNumSeqs - 1))
      ->needs(long_prompt)
      ->capture_default_str();
}

}  // namespace

void add_commands(CLI::App& app, bool uses_gpu, Flags& flags) {
  if (uses_gpu) flags.engine.set_gpu_defaults();
  CLI::App& generate_command = *app.add_subcommand("generate", "Continues a prompt");
  CLI::App& score_command = *app.add_subcommand("score", "Tells how likely given tokens are");
  CLI::App& checkpoint_command =
      *app.add_subcommand("checkpoint", "Writes what the first layer computes, step by step");
  CLI::App& inspect_command = *app.add_subcommand("inspect", "Tells what a model file holds");
  CLI::App& bench_command = *app.add_subcommand("bench", "Measures tokens a second");
  CLI::App& serving_command = *app.add_subcommand("serve", "Speaks docs/protocol.md on stdin and stdout");
  for (CLI::App* command : app.get_subcommands({})) add_model_flags(*command, flags);
  CLI::App& replay_app = *app.add_subcommand("replay", "Does again what serve --record recorded");
  CLI::App& synth_command = *app.add_subcommand("synth", "Writes a model file of random weights");
  for (CLI::App* command :
       {&generate_command, &score_command, &checkpoint_command, &bench_command, &serving_command}) {
    add_engine_flags(*command, flags.engine);
    add_activations_flag(*command, flags.engine, uses_gpu);
    if (uses_gpu) {
      add_gpu_flags(*command, flags.engine);
    } else {
      add_cpu_flags(*command, flags.engine);
    }
  }
  add_engine_flags(inspect_command, flags.engine);
  add_num_seqs_flag(inspect_command, flags.engine);
  if (uses_gpu) add_gpu_flags(inspect_command, flags.engine);
  for (CLI::App* command : {&generate_command, &serving_command})
    add_switch(*command, "--speculation", flags.engine.speculation,
               "Whether a text that repeats itself is computed several tokens in a step");
  for (CLI::App* command : {&generate_command, &inspect_command, &bench_command})
    command->add_flag("--json", flags.json, "One JSON object");
  if (uses_gpu)
    app.add_subcommand("devices", "Tells what GPUs there are, and whether they run a kernel")
        ->add_flag("--json", flags.json, "One JSON object");
  add_generate_flags(generate_command, flags.generate);
  add_ids_flag(checkpoint_command, "--tokens", flags.checkpoint.token_ids, "Ids of the prompt, such as 1,2,3")
      ->required();
  checkpoint_command.add_option("--out", flags.checkpoint.out, "The folder to write to")->required();
  checkpoint_command.add_option("--max-tokens", flags.checkpoint.max_tokens, "Tokens that follow the prompt")
      ->capture_default_str();
  score_command.add_option("--tokens-file", flags.tokens_file, "A JSON array of ids")->required();
  score_command.add_option("--top", flags.num_top, "Most likely ids to show for each position")
      ->check(CLI::Range(0u, kMaxScoreTop))
      ->capture_default_str();
  add_bench_flags(bench_command, flags);
  add_num_seqs_flag(serving_command, flags.engine);
  add_serve_flags(serving_command, flags.serve);
  add_replay_flags(replay_app, flags.replay);
  add_synth_flags(synth_command, flags.synth);
}

}  // namespace runnel
