// What the launchers of products share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/product_variants.h"

namespace runnel {

inline uint32_t num_tiles(const DeviceMatrix& matrix) {
  return divide_up(matrix.rows, kWarpTileRows);
}

// Whether the device has this much shared memory for a block.
template <typename Product>
bool has_memory_for(Product) {
  return Product::Memory::kBytes <= max_dynamic_shared_bytes();
}

// A product with the time that a wave of its blocks takes on full multiprocessors, beside others: tenths of a
// microsecond for 1,024 columns on an H100. Where fewer blocks fit than there, a wave counts as long.
template <typename ProductOf, uint32_t kWaveOf>
struct Timed {
  static constexpr uint64_t kWave = kWaveOf;
  ProductOf product;

  // The blocks fill the device in waves. UINT64_MAX: the device has less shared memory for a block.
  uint64_t time(uint32_t num_tiles, uint32_t num_rows, const BlockRoom& room) const {
    constexpr uint32_t kBytes = ProductOf::Memory::kBytes;
    if (kBytes > room.block_bytes) return UINT64_MAX;
    const uint64_t blocks =
        uint64_t{divide_up(num_tiles, ProductOf::kTiles)} * divide_up(num_rows, ProductOf::kColumns);
    const uint64_t places = uint64_t{room.resident(ProductOf::kMinBlocks, kBytes)} * room.multiprocessors;
    return (blocks + places - 1) / places * kWave;
  }
};

// Calls of with the product that takes the least time, of which the device must have memory for one.
template <typename Of, typename... Products>
cudaError_t with_fastest(uint32_t num_tiles, uint32_t num_rows, const Of& of, const Products&... timed) {
  // Prompts ask at every launch, so the device is asked once for all products.
  const BlockRoom room;
  const uint64_t times[] = {timed.time(num_tiles, num_rows, room)...};
  uint64_t least = UINT64_MAX;
  for (const uint64_t time : times) least = std::min(least, time);
  cudaError_t status = cudaErrorInvalidValue;
  uint32_t next = 0;
  static_cast<void>(((times[next++] == least && (status = of(timed.product), true)) || ...));
  return status;
}

// Of a launch whose blocks take Product::kTiles tiles of num_matrices matrices of this shape, or for vectors
// one of each. Grid y: groups of rows of the batch.
template <typename Product>
cudaLaunchConfig_t product_config(const DeviceMatrix& matrix, uint32_t num_matrices, uint32_t num_rows,
                                  cudaStream_t stream) {
  uint32_t num_groups = num_tiles(matrix);
  uint32_t num_threads = Product::kMaxThreads;
  if constexpr (Product::kKind != ProductKind::kTiles) num_threads = Product::num_threads(matrix.columns);
  if constexpr (Product::kKind != ProductKind::kVectors)
    num_groups = divide_up(num_groups * num_matrices, Product::kTiles);
  return config_of(dim3(num_groups, divide_up(num_rows, Product::kColumns)), num_threads, stream,
                   Product::Memory::kBytes);
}

}  // namespace runnel
