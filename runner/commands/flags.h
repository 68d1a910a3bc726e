// The flags of a runner's commands, and their syntax on the command line.
#pragma once

#include <cstdint>
#include <string>

#include "runner/bench/bench.h"
#include "runner/bench/gap_bench.h"
#include "runner/bench/kernel_bench.h"
#include "runner/bench/workload_bench.h"
#include "runner/commands/checkpoint.h"
#include "runner/commands/generate.h"
#include "runner/commands/loaded_model.h"
#include "runner/commands/memory_command.h"
#include "runner/commands/replay_command.h"
#include "runner/commands/serve_command.h"
#include "runner/synth/synth.h"

namespace CLI {
class App;
}

namespace runnel {

// The parsed flags of all commands.
struct Flags {
  EngineFlags engine;
  GenerateFlags generate;
  BenchFlags bench;
  bool is_kernel_bench = false;
  KernelBenchFlags kernels;
  bool is_workload_bench = false;
  WorkloadFlags workload;
  bool is_gap_bench = false;
  GapFlags gap;
  ServeFlags serve;
  ReplayFlags replay;
  SynthFlags synth;
  CheckpointFlags checkpoint;
  std::string tokens_file;  // of score
  uint32_t num_top = 5;     // of score
  bool json = false;
};

// Adds the commands to app, with the flags for a GPU or for a CPU. Parsed values are written to flags, which
// must outlive app.
void add_commands(CLI::App& app, bool uses_gpu, Flags& flags);

}  // namespace runnel
