// cpu-runner bench --kernels: how long each operation of a step of next tokens takes, and how near it comes
// to the limit of the device's memory, which is a copy that is measured in the same run. An operation runs
// for all layers in turn, as in a step, so a cache holds its weights only if it holds those of all layers.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "runner/commands/loaded_model.h"
#include "runner/result.h"

namespace runnel {

struct KernelBenchFlags {
  uint32_t num_positions = 0;          // positions of each sequence
  std::vector<uint32_t> batches = {};  // sequences in a step
  uint32_t num_repeats = 21;
  uint64_t copy_bytes = uint64_t{256} << 20;
  uint32_t peak_iterations = 4096;
  bool json = false;
};

// Uses model, architecture and block_size of engine. The backend must launch operations one by one. Fails as
// loading does, with kUsage if the model has fewer positions, and with kSystem if there is no room.
Result<void> kernel_bench(const EngineFlags& engine, std::unique_ptr<Backend> backend,
                          const KernelBenchFlags& flags, std::ostream& out);

}  // namespace runnel
