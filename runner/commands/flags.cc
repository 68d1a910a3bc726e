#include "runner/commands/flags.h"

#include <memory>

#include "runner/commands/flag_groups.h"
#include "runner/commands/flag_values.h"
#include "runner/commands/wrapped_text.h"

namespace runnel {
namespace {

constexpr uint32_t kMaxScoreTop = 1000;

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

void add_synth_flags(CLI::App& command, SynthFlags& flags) {
  command.add_option("--arch", flags.architecture, "Architecture")
      ->type_name("llama|qwen3")
      ->required()
      ->check(CLI::IsMember(synth_architectures()).description(""))
      ->group(kModel);
  command
      .add_option("--shape", flags.shape,
                  "Shape of llama-160m, Llama 3.2 1B or Llama 3.1 8B: " + shape_names("llama") +
                      "; with qwen3, of Qwen3-0.6B: " + shape_names("qwen3"))
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
  command
      .add_flag("--byte-tokenizer", flags.has_tokenizer,
                "Add a tokenizer whose tokens are bytes, so that the gateway can serve the file")
      ->group(kModel);
  command.add_option("FILE", flags.file, "File to write, which must not exist yet")
      ->type_name("")
      ->required();
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
    add_device_flags(*command, flags.engine, uses_gpu);
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
  CLI::App& devices_command = *app.add_subcommand(
      "devices", uses_gpu ? "List the GPUs, and say whether each runs a kernel"
                          : "Say which kernels, threads and NUMA nodes of this machine compute by default");
  devices_command.add_flag("--json", flags.json, "Print one JSON object")->group(kInputOutput);
  if (uses_gpu) {
    add_gpu_device_flag(devices_command, flags.engine)
        ->description("Run a kernel on this GPU only; the others are listed")
        ->default_str("all of them");
  }
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
