// How a kernel is launched.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace runnel {

inline uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

// A grid may be long in x; in y and z a device takes 65,535 at most, fewer than a step may have rows.
inline cudaLaunchConfig_t config_of(dim3 grid, uint32_t num_threads, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(num_threads);
  config.stream = stream;
  return config;
}

}  // namespace runnel
