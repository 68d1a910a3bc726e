// The configuration of kernel launches.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/divide_up.h"

namespace runnel {

// An attribute of this device; `otherwise` if it cannot be asked.
inline uint32_t device_attribute(cudaDeviceAttr attribute, uint32_t otherwise) {
  int device = 0;
  int value = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess)
    return otherwise;
  return static_cast<uint32_t>(value);
}

// Whether the kernels that this device runs wait for the launch before them: it must be 9.0 or later, and
// they must be compiled for 9.0 or later, since a later device also runs the code of an earlier one. Drivers
// have it in graphs from 12.3 on.
inline bool kernels_wait() {
  constexpr int kLeastDriver = 12030;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver < kLeastDriver) return false;
  const uint32_t capability = 100 * device_attribute(cudaDevAttrComputeCapabilityMajor, 0) +
                              10 * device_attribute(cudaDevAttrComputeCapabilityMinor, 0);
  constexpr uint32_t kCompiledFor[] = {__CUDA_ARCH_LIST__};
  for (const uint32_t architecture : kCompiledFor)
    if (architecture >= 900 && architecture <= capability) return true;
  return false;
}

// Lets a launch begin before the one before it has ended, if that one is a kernel that called
// let_next_begin(). In a captured graph the two then have a programmatic edge. After anything else, such as a
// copy or a graph, the launch begins when that is complete.
inline cudaLaunchAttribute early_begin{.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                       .pad = {},
                                       .val = {.programmaticStreamSerializationAllowed = 1}};

// The largest size of dynamic_shared() on this device: 64 KiB on 7.5, 99 on 8.6, 8.9 and 12.0, 227 on 9.0.
inline uint32_t max_dynamic_shared_bytes() {
  return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
}
inline uint32_t num_multiprocessors() {
  return device_attribute(cudaDevAttrMultiProcessorCount, 1);
}

// The room of this device for blocks.
struct BlockRoom {
  uint32_t multiprocessors = num_multiprocessors();
  uint32_t block_bytes = max_dynamic_shared_bytes();
  // The shared memory of a multiprocessor, 228 KiB on 9.0, and what each block takes of it beside its own.
  uint32_t shared_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0);
  uint32_t reserved_bytes = device_attribute(cudaDevAttrReservedSharedMemoryPerBlock, 0);

  // The blocks that a multiprocessor holds at a time, of those that its registers allow.
  uint32_t resident(uint32_t of_registers, uint32_t bytes_of_block) const {
    return std::clamp(shared_bytes / (bytes_of_block + reserved_bytes), 1u, of_registers);
  }
};

// Devices accept grids of at most 65,535 blocks in y and z. A step may have more rows than that, so long
// dimensions must be x.
// dynamic_bytes: of dynamic_shared(); above 48 KiB the kernel must have been loaded with them (load.h).
inline cudaLaunchConfig_t config_of(dim3 grid, uint32_t num_threads, cudaStream_t stream,
                                    size_t dynamic_bytes = 0) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(num_threads);
  config.dynamicSmemBytes = dynamic_bytes;
  config.stream = stream;
  config.attrs = &early_begin;
  config.numAttrs = kernels_wait() ? 1 : 0;
  return config;
}

}  // namespace runnel
