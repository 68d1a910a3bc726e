// The configuration of kernel launches.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/device_limits.h"
#include "cuda-runner/kernels/divide_up.h"

namespace runnel {

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
