// The kernels of products of float weights, and their launchers.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/float_tile_product-inl.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product_launch-inl.h"
#include "cuda-runner/kernels/product_output-inl.h"
#include "cuda-runner/kernels/vector_product-inl.h"

namespace runnel {

// --- a few rows. Grid x: tiles of the matrix; y: groups of rows of the batch.

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    multiply_vectors_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, ProductOutput to) {
  let_next_begin();
  __shared__ typename Product::Memory memory;
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t row = first_row + warp();
  const float total = Product::compute(matrix, blockIdx.x, in, first_row, num_rows, memory);
  if (warp() < Product::kColumns && row < num_rows) finish(to, blockIdx.x, row, total);
}

// A tile is a block of out's columns.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    gated_multiply_vectors_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity, ReadyRows in,
                                  uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  __shared__ typename Product::Memory memory;
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t row = first_row + warp();
  const float gated = Product::compute(gate, blockIdx.x, in, first_row, num_rows, memory);
  const float scaled = Product::compute(up, blockIdx.x, in, first_row, num_rows, memory);
  if (warp() < Product::kColumns && row < num_rows)
    finish_gated(out, nonlinearity, blockIdx.x, row, gated, scaled);
}

// --- more rows. Grid x: groups of tiles, half of them of each matrix with a gate; y: groups of rows of the
// batch.

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    multiply_float_tiles_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, ProductOutput to) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t first_tile = blockIdx.x * Product::kTiles;
  Product::compute({matrix, matrix, first_tile, first_tile + Product::kTiles / 2}, in, first_row, num_rows,
                   memory);
  for (uint32_t i = warp(); i < Product::kTiles * Product::kColumns; i += Product::kWarps) {
    const uint32_t tile = i / Product::kColumns;
    const uint32_t row = i % Product::kColumns;
    if (first_row + row < num_rows && (first_tile + tile) * kWarpTileRows < matrix.rows)
      finish(to, first_tile + tile, first_row + row, Product::result(memory, tile, row));
  }
}

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    gated_multiply_float_tiles_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity,
                                      ReadyRows in, uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  constexpr uint32_t kTiles = Product::kTiles / 2;
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t first_tile = blockIdx.x * kTiles;
  Product::compute({gate, up, first_tile, first_tile}, in, first_row, num_rows, memory);
  for (uint32_t i = warp(); i < kTiles * Product::kColumns; i += Product::kWarps) {
    const uint32_t tile = i / Product::kColumns;
    const uint32_t row = i % Product::kColumns;
    if (first_row + row < num_rows && (first_tile + tile) * kWarpTileRows < gate.rows)
      finish_gated(out, nonlinearity, first_tile + tile, first_row + row, Product::result(memory, tile, row),
                   Product::result(memory, kTiles + tile, row));
  }
}

// --- launchers

// The products of tiles of a type. kLarge and kMedium are for steps of many rows, and their blocks have one
// group. The others have a warp for each of 4 or 8 segments, with which a small matrix keeps a device busy:
// the fewer tiles it has, the fewer rows of the batch a block takes. With a gate a block has at least two
// tiles.
template <TensorType kType>
struct FloatProducts {
  using Large = FloatTileProduct<kType, 4, 128, 8, 1>;
  using Medium = FloatTileProduct<kType, 2, 64, 4, 1>;
  using Two32 = FloatTileProduct<kType, 2, 32, 1, 4>;
  using Two32Long = FloatTileProduct<kType, 2, 32, 1, 8>;
  using Two16 = FloatTileProduct<kType, 2, 16, 1, 4>;
  using Two16Long = FloatTileProduct<kType, 2, 16, 1, 8>;
  using One32 = FloatTileProduct<kType, 1, 32, 1, 8>;
  using One16 = FloatTileProduct<kType, 1, 16, 1, 8>;
  using One8 = FloatTileProduct<kType, 1, 8, 1, 8>;
};

// Up to this many rows, products of vectors are as fast as those of tiles.
inline constexpr uint32_t kMostVectorRows = 8;
// A grid of at least this many blocks keeps a large device busy.
inline constexpr uint32_t kManyFloatBlocks = 96;
// With fewer blocks than this of four warps, few multiprocessors have two of them.
inline constexpr uint32_t kManyFewWarpBlocks = 200;
// With at least this many blocks, the last of them to run are few among all.
inline constexpr uint32_t kManyLargeFloatBlocks = 512;

// Calls vectors or tiles with an object of the product that a step of num_rows rows takes. kMatrices: 2 with
// a gate.
template <TensorType kType, uint32_t kMatrices, typename Vectors, typename Tiles>
cudaError_t with_float_product(const DeviceMatrix& matrix, uint32_t num_rows, ProductForm form,
                               const Vectors& vectors, const Tiles& tiles) {
  using Products = FloatProducts<kType>;
  const bool is_best = form == ProductForm::kBest;
  const auto num_blocks = [&]<typename P>(P) {
    return divide_up(num_tiles(matrix) * kMatrices, P::kTiles) * divide_up(num_rows, P::kColumns);
  };
  const auto suits = [&](auto product, uint32_t least_blocks) {
    return has_memory_for(product) && (!is_best || num_blocks(product) >= least_blocks);
  };
  // A product of two tiles, or the one with twice as many warps if there are segments for them.
  const auto two_tiles = [&](auto product, auto with_more_warps) {
    if constexpr (kMatrices == 1) {
      const bool is_long = matrix.columns > product.kGroups * kSegmentColumns;
      const bool are_few = num_blocks(product) < kManyFewWarpBlocks;
      if (is_long && are_few && has_memory_for(with_more_warps)) return tiles(with_more_warps);
    }
    return tiles(product);
  };
  if (!is_best || num_rows > kMostVectorRows) {
    const typename Products::Large large;
    const typename Products::Medium medium;
    const typename Products::Two32 two_32;
    const typename Products::Two16 two_16;
    if ((is_best ? num_rows > 64 : form == ProductForm::kTiles) && suits(large, kManyLargeFloatBlocks))
      return tiles(large);
    const uint32_t most_of_two_tiles = has_memory_for(two_32) ? 32 : 16;
    if ((is_best ? num_rows > most_of_two_tiles : form >= ProductForm::kTiles) &&
        suits(medium, kManyFloatBlocks))
      return tiles(medium);
    const uint32_t least_blocks = kMatrices > 1 ? 1 : kManyFloatBlocks;
    if (num_rows > 16 && suits(two_32, least_blocks))
      return two_tiles(two_32, typename Products::Two32Long());
    if (num_rows <= 16 && suits(two_16, least_blocks))
      return two_tiles(two_16, typename Products::Two16Long());
    if constexpr (kMatrices == 1) {
      const typename Products::One32 one_32;
      const typename Products::One16 one_16;
      const typename Products::One8 one_8;
      if (num_rows > 16 && suits(one_32, kManyFloatBlocks)) return tiles(one_32);
      if (suits(one_16, kManyFloatBlocks)) return tiles(one_16);
      if (suits(one_8, 1)) return tiles(one_8);
    }
    // A device with less memory.
    if (num_rows > 16 && has_memory_for(medium)) return tiles(medium);
  }
  if (num_rows == 1) return vectors(VectorProduct<kType, 1>());
  if (num_rows == 2) return vectors(VectorProduct<kType, 2>());
  if (num_rows <= 4) return vectors(VectorProduct<kType, 4>());
  return vectors(VectorProduct<kType, 8>());
}

template <TensorType kType>
cudaError_t multiply_floats(const DeviceMatrix& matrix, const ReadyRows& in, uint32_t num_rows,
                            const ProductOutput& to, cudaStream_t stream, ProductForm form) {
  const uint32_t tiles = num_tiles(matrix);
  return with_float_product<kType, 1>(
      matrix, num_rows, form,
      [&]<typename P>(P) {
        const dim3 grid(tiles, divide_up(num_rows, P::kColumns));
        const auto config = config_of(grid, P::num_threads(matrix.columns), stream);
        return cudaLaunchKernelEx(&config, multiply_vectors_kernel<P>, matrix, in, num_rows, to);
      },
      [&]<typename P>(P product) {
        const auto config = product_config(product, divide_up(tiles, P::kTiles), num_rows, stream);
        return cudaLaunchKernelEx(&config, multiply_float_tiles_kernel<P>, matrix, in, num_rows, to);
      });
}

template <TensorType kType>
cudaError_t gated_multiply_floats(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                                  const ReadyRows& in, uint32_t num_rows, const ReadyRows& out,
                                  cudaStream_t stream, ProductForm form) {
  const uint32_t tiles = num_tiles(gate);
  return with_float_product<kType, 2>(
      gate, num_rows, form,
      [&]<typename P>(P) {
        const dim3 grid(tiles, divide_up(num_rows, P::kColumns));
        const auto config = config_of(grid, P::num_threads(gate.columns), stream);
        return cudaLaunchKernelEx(&config, gated_multiply_vectors_kernel<P>, gate, up, nonlinearity, in,
                                  num_rows, out);
      },
      [&]<typename P>(P product) {
        const auto config = product_config(product, divide_up(2 * tiles, P::kTiles), num_rows, stream);
        return cudaLaunchKernelEx(&config, gated_multiply_float_tiles_kernel<P>, gate, up, nonlinearity, in,
                                  num_rows, out);
      });
}

// Loads the kernels of these products of tiles, of those that the device has the memory for.
template <typename Load, typename... Products>
cudaError_t load_float_tiles(const Load& load_one, Products... products) {
  cudaError_t status = cudaSuccess;
  const auto add = [&](auto product) {
    if (status == cudaSuccess && has_memory_for(product)) status = load_one(product);
  };
  (add(products), ...);
  return status;
}

template <TensorType kType>
cudaError_t load_multiply_floats() {
  using P = FloatProducts<kType>;
  const cudaError_t status = load_all(
      multiply_vectors_kernel<VectorProduct<kType, 1>>, multiply_vectors_kernel<VectorProduct<kType, 2>>,
      multiply_vectors_kernel<VectorProduct<kType, 4>>, multiply_vectors_kernel<VectorProduct<kType, 8>>);
  if (status != cudaSuccess) return status;
  return load_float_tiles(
      []<typename Product>(Product) {
        return load(multiply_float_tiles_kernel<Product>, Product::Memory::kBytes);
      },
      typename P::Large(), typename P::Medium(), typename P::Two32(), typename P::Two32Long(),
      typename P::Two16(), typename P::Two16Long(), typename P::One32(), typename P::One16(),
      typename P::One8());
}

template <TensorType kType>
cudaError_t load_gated_multiply_floats() {
  using P = FloatProducts<kType>;
  const cudaError_t status = load_all(gated_multiply_vectors_kernel<VectorProduct<kType, 1>>,
                                      gated_multiply_vectors_kernel<VectorProduct<kType, 2>>,
                                      gated_multiply_vectors_kernel<VectorProduct<kType, 4>>,
                                      gated_multiply_vectors_kernel<VectorProduct<kType, 8>>);
  if (status != cudaSuccess) return status;
  return load_float_tiles(
      []<typename Product>(Product) {
        return load(gated_multiply_float_tiles_kernel<Product>, Product::Memory::kBytes);
      },
      typename P::Large(), typename P::Medium(), typename P::Two32(), typename P::Two16());
}

}  // namespace runnel
