// What the launchers of products share.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/product.h"

namespace runnel {

inline uint32_t num_tiles(const DeviceMatrix& matrix) {
  return divide_up(matrix.rows, kWarpTileRows);
}

// Whether the device has this much shared memory for a block.
template <typename Product>
bool has_memory_for(Product) {
  return Product::Memory::kBytes <= max_dynamic_shared_bytes();
}

template <typename Product>
cudaLaunchConfig_t product_config(Product, uint32_t num_groups, uint32_t num_rows, cudaStream_t stream) {
  const dim3 grid(num_groups, divide_up(num_rows, Product::kColumns));
  return config_of(grid, Product::kMaxThreads, stream, Product::Memory::kBytes);
}

}  // namespace runnel
