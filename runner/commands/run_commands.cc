#include "runner/commands/run_commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "runner/commands/flags.h"
#include "runner/commands/inspect.h"
#include "runner/commands/score.h"
#include "runner/commands/system_errors.h"
#include "runner/synth/synth.h"
#include "runner/system/topology.h"

namespace runnel {
namespace {

// Starts the other ranks first, if there are several; they do not return from here.
Result<std::unique_ptr<Backend>> make_backend(EngineFlags& flags, const BackendFactory& factory) {
  if (const auto started = flags.start_ranks(); !started.ok()) return started.error();
  const Result<ModelFiles> opened = ModelFiles::open(flags.model);
  Result<std::unique_ptr<Backend>> backend = factory.make(flags.backend_options_for(opened));
  if (flags.follows()) follow_leader(flags, opened, std::move(backend));
  return backend;
}

Result<LoadedModel> load_by_hand(EngineFlags& flags, const BackendFactory& factory) {
  Result<std::unique_ptr<Backend>> backend = make_backend(flags, factory);
  if (!backend.ok()) return backend.error();
  return load(flags, *std::move(backend), [](uint64_t, uint64_t) {});
}

Result<void> run_generate(Flags& flags, const BackendFactory& factory) {
  flags.engine.max_num_seqs = 1;
  flags.generate.json = flags.json;
  const Result<LoadedModel> loaded = load_by_hand(flags.engine, factory);
  if (!loaded.ok()) return loaded.error();
  return generate(*loaded->engine, flags.generate, std::cout);
}

Result<void> run_score(Flags& flags, const BackendFactory& factory) {
  flags.engine.max_num_seqs = 1;
  Result<std::vector<uint32_t>> token_ids = read_token_ids(flags.tokens_file);
  if (!token_ids.ok()) return token_ids.error();
  const Result<LoadedModel> loaded = load_by_hand(flags.engine, factory);
  if (!loaded.ok()) return loaded.error();
  return score(*loaded->engine, *std::move(token_ids), flags.num_top, std::cout);
}

// Of commands that look at what lies between the operations, which no rank has whole.
Result<void> check_one_rank(const EngineFlags& flags, const std::string& command) {
  if (flags.num_ranks == 1) return {};
  return Error{ExitCode::kUsage, "--tensor-parallel-size is " + std::to_string(flags.num_ranks) + "; " +
                                     command + " computes with 1. The bits are the same."};
}

Result<void> run_checkpoint(Flags& flags, const BackendFactory& factory) {
  if (const auto checked = check_one_rank(flags.engine, "checkpoint"); !checked.ok()) return checked;
  flags.engine.enforce_eager = true;  // inside a graph no intermediate value can be read
  Result<std::unique_ptr<Backend>> backend = factory.make(flags.engine.backend_options());
  if (!backend.ok()) return backend.error();
  return checkpoint(flags.engine, *std::move(backend), flags.checkpoint, std::cout);
}

Result<void> run_kernel_bench(Flags& flags, const BackendFactory& factory) {
  if (const auto checked = check_one_rank(flags.engine, "bench --kernels"); !checked.ok()) return checked;
  flags.engine.enforce_eager = true;  // operations inside a graph cannot be measured
  flags.kernels.num_positions = flags.bench.num_prompt_tokens;
  flags.kernels.batches = flags.bench.batches;
  flags.kernels.json = flags.json;
  Result<std::unique_ptr<Backend>> backend = factory.make(flags.engine.backend_options());
  if (!backend.ok()) return backend.error();
  return kernel_bench(flags.engine, *std::move(backend), flags.kernels, std::cout);
}

Result<void> run_bench(Flags& flags, const BackendFactory& factory) {
  if (flags.is_kernel_bench) return run_kernel_bench(flags, factory);
  if (flags.is_gap_bench) {
    flags.engine.max_num_seqs = flags.gap.num_streams + 1;
  } else if (!flags.is_workload_bench) {
    flags.engine.max_num_seqs = std::ranges::max(flags.bench.batches);
  }
  // With speculation, the rows of a step would depend on the random prompts.
  flags.engine.speculation = false;
  flags.bench.json = flags.workload.json = flags.gap.json = flags.json;
  Result<std::unique_ptr<Backend>> backend = make_backend(flags.engine, factory);
  if (!backend.ok()) return backend.error();
  const uint64_t free_before = (*backend)->device().free_memory_bytes();
  const Result<LoadedModel> loaded = load(flags.engine, *std::move(backend), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) return loaded.error();
  ComputeDevice& device = loaded->backend->device();
  BenchSubject subject{
      .model = flags.engine.model, .device = device.name(), .num_threads = flags.engine.num_threads};
  if (factory.uses_gpu()) {
    // Nothing is freed before the end, so what is missing then is the most that was ever allocated.
    subject.device_use = [&] {
      return DeviceUse{
          .bytes_beside_kv_cache = free_before - device.free_memory_bytes() - loaded->kv_cache_bytes,
          .weights_bytes = loaded->backend->weights_bytes()};
    };
  }
  Engine& engine = *loaded->engine;
  if (flags.is_gap_bench) return gap_bench(engine, flags.gap, subject, std::cout);
  if (flags.is_workload_bench)
    return workload_bench(*loaded->model, engine.config(), flags.workload, subject, std::cout);
  return bench(engine, flags.bench, subject, std::cout);
}

// What a single runner without flags computes with.
Result<void> report_processor(const EngineFlags& flags, const BackendFactory& factory, bool json,
                              std::ostream& out) {
  const Result<std::unique_ptr<Backend>> backend = factory.make(flags.backend_options());
  if (!backend.ok()) return backend.error();
  const std::string name = (*backend)->device().name();
  out << (json ? nlohmann::json{{"device", name}}.dump() : name) << std::endl;
  return {};
}

// "the commands are generate, score and inspect."
std::string commands_sentence(const CLI::App& app) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  std::string names;
  for (const CLI::App* command : commands) {
    if (!names.empty()) names += command == commands.back() ? " and " : ", ";
    names += command->get_name();
  }
  return "the commands are " + names + ".";
}

// The error for a command line that does not parse. For an unknown command, CLI11's own sentence says only
// that a command is missing.
std::string usage_sentence(int argc, const char* const* argv, const CLI::App& app,
                           const CLI::ParseError& error) {
  if (argc < 2) return "No command was given; " + commands_sentence(app);
  const bool is_missing_command = error.get_name() == "RequiredError" && argv[1][0] != '-';
  const bool is_known = std::ranges::any_of(
      app.get_subcommands({}), [&](const CLI::App* command) { return command->check_name(argv[1]); });
  if (is_missing_command && !is_known)
    return "There is no command \"" + std::string(argv[1]) + "\"; " + commands_sentence(app);
  return error.what();
}

}  // namespace

int run_commands(int argc, const char* const* argv, const BackendFactory& factory) {
  const std::string program = factory.kind + "-runner";
  const auto fail = [&](const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.message.c_str());
    return static_cast<int>(error.exit_code);
  };

  Flags flags;
  CLI::App app("Computes a language model: token ids in, token ids out.", program);
  app.set_version_flag("--version", std::string(RUNNEL_VERSION));
  app.require_subcommand(1);
  add_commands(app, factory.uses_gpu(), flags);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const Error refusal{ExitCode::kUsage, usage_sentence(argc, argv, app, error)};
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!arguments.empty() && arguments.front() == "serve")
      send_refusal(refusal, std::ranges::count(arguments, "--json-frames") > 0);
    return fail(refusal);
  }
  const CLI::App& bench_app = *app.get_subcommand("bench");
  flags.is_gap_bench = bench_app.count("--long-prompt") > 0;
  if (bench_app.count("--repeats") > 0) flags.kernels.num_repeats = flags.bench.num_repeats;
  flags.engine.set_threads(read_topology());

  const Result<void> end = with_system_errors([&]() -> Result<void> {
    if (app.got_subcommand("serve")) return serve_command(flags.engine, flags.serve, factory);
    if (const auto opened = flags.engine.open_weights_file(); !opened.ok()) return opened;
    if (const auto opened = flags.engine.open_kv_memory(); !opened.ok()) return opened;
    if (app.got_subcommand("generate")) return run_generate(flags, factory);
    if (app.got_subcommand("score")) return run_score(flags, factory);
    if (app.got_subcommand("checkpoint")) return run_checkpoint(flags, factory);
    if (app.got_subcommand("bench")) return run_bench(flags, factory);
    if (app.got_subcommand("devices")) {
      if (!factory.uses_gpu()) return report_processor(flags.engine, factory, flags.json, std::cout);
      const bool is_one = app.get_subcommand("devices")->count("--gpu-device") > 0;
      const auto number = is_one ? std::optional(flags.engine.gpu_device) : std::nullopt;
      return factory.report_devices(number, flags.json, std::cout);
    }
    if (app.got_subcommand("replay")) return replay_command(flags.replay, factory, std::cout);
    if (!factory.uses_gpu() && app.got_subcommand("memory")) return hold_kv_memory(STDIN_FILENO, std::cout);
    if (app.got_subcommand("synth")) return synth(flags.synth, std::cout, std::cerr);
    return inspect(flags.engine, factory, flags.json, std::cout);
  });
  if (!end.ok()) return fail(end.error());
  if (!std::cout.flush()) return fail({ExitCode::kInputOutput, "Writing to stdout failed."});
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace runnel
