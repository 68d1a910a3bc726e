// cpu-runner bench --kernels: how long each operation of a step of next tokens takes, and how near that is to
// what the device's memory allows: a copy, measured in the same run. An operation runs for all layers in
// turn, as it does in a step, so that a cache holds its weights only if it holds those of all layers.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "runner/commands/loaded_model.h"
#include "runner/result.h"

namespace runnel {

struct KernelBenchFlags {
  uint32_t num_positions = 0;          // that each sequence has
  std::vector<uint32_t> batches = {};  // sequences in a step
  uint32_t num_repeats = 21;
  uint64_t copy_bytes = uint64_t{256} << 20;
  bool json = false;
};

// Of engine: model, architecture and block_size. The backend launches operations by themselves. Fails as
// loading does, with kUsage when the model has not so many positions, with kSystem when there is no room.
Result<void> kernel_bench(const EngineFlags& engine, std::unique_ptr<Backend> backend,
                          const KernelBenchFlags& flags, std::ostream& out);

}  // namespace runnel
