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

// The products of tiles of a type, with times as for BF16. Large and Medium are for steps of many rows, and
// their blocks have one group. The others have a warp for each of 4 or 8 segments, with which a small matrix
// keeps a device busy: the fewer tiles it has, the fewer rows of the batch a block takes.
template <TensorType kType>
struct FloatProducts {
  using Large = Timed<FloatTileProduct<kType, 4, 128, 8, 1>, 1150>;
  using Medium = Timed<FloatTileProduct<kType, 2, 64, 4, 1>, 1080>;
  using Two32 = Timed<FloatTileProduct<kType, 2, 32, 1, 4>, 308>;
  using Two32Long = Timed<FloatTileProduct<kType, 2, 32, 1, 8>, 175>;
  using Two16 = Timed<FloatTileProduct<kType, 2, 16, 1, 4>, 206>;
  using Two16Long = Timed<FloatTileProduct<kType, 2, 16, 1, 8>, 130>;
  using Two8Long = Timed<FloatTileProduct<kType, 2, 8, 1, 8>, 95>;
  // With a gate a block has at least two tiles.
  using One32 = Timed<FloatTileProduct<kType, 1, 32, 1, 8>, 105>;
  using One8 = Timed<FloatTileProduct<kType, 1, 8, 1, 8>, 75>;
};

// Up to this many rows, products of vectors are as fast as those of tiles.
inline constexpr uint32_t kMostVectorRows = 2;

// Calls vectors or tiles with an object of the product that a step of num_rows rows takes. kMatrices: 2 with
// a gate.
template <TensorType kType, uint32_t kMatrices, typename Vectors, typename Tiles>
cudaError_t with_float_product(const DeviceMatrix& matrix, uint32_t num_rows, ProductForm form,
                               const Vectors& vectors, const Tiles& tiles) {
  using Products = FloatProducts<kType>;
  const uint32_t all_tiles = num_tiles(matrix) * kMatrices;
  const auto fastest = [&](const auto&... products) {
    return with_fastest(all_tiles, num_rows, tiles, products...);
  };
  const typename Products::Large large{};
  const typename Products::Medium medium{};
  const typename Products::Two32 two_32{};
  const typename Products::Two32Long two_32_long{};
  const typename Products::Two16 two_16{};
  const typename Products::Two16Long two_16_long{};
  const typename Products::Two8Long two_8_long{};
  // Medium is the one that needs the least memory.
  if (has_memory_for(medium.product)) {
    if (form == ProductForm::kTiles && has_memory_for(large.product)) return tiles(large.product);
    if (form >= ProductForm::kTiles) return tiles(medium.product);
    if (form == ProductForm::kSegments)
      return fastest(two_32, two_32_long, two_16, two_16_long, two_8_long, medium);
    if (num_rows > kMostVectorRows) {
      if constexpr (kMatrices == 1) {
        const typename Products::One32 one_32{};
        const typename Products::One8 one_8{};
        return fastest(large, medium, two_32, two_32_long, two_16, two_16_long, two_8_long, one_32, one_8);
      } else {
        return fastest(large, medium, two_32, two_32_long, two_16, two_16_long, two_8_long);
      }
    }
  }
  if (num_rows == 1) return vectors(VectorProduct<kType, 1>());
  if (num_rows == 2) return vectors(VectorProduct<kType, 2>());
  return vectors(VectorProduct<kType, 4>());
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
cudaError_t load_float_tiles(const Load& load_one, const Products&... timed) {
  cudaError_t status = cudaSuccess;
  const auto add = [&](auto product) {
    if (status == cudaSuccess && has_memory_for(product)) status = load_one(product);
  };
  (add(timed.product), ...);
  return status;
}

template <TensorType kType>
cudaError_t load_multiply_floats() {
  using P = FloatProducts<kType>;
  const cudaError_t status = load_all(multiply_vectors_kernel<VectorProduct<kType, 1>>,
                                      multiply_vectors_kernel<VectorProduct<kType, 2>>,
                                      multiply_vectors_kernel<VectorProduct<kType, 4>>);
  if (status != cudaSuccess) return status;
  return load_float_tiles(
      []<typename Product>(Product) {
        return load(multiply_float_tiles_kernel<Product>, Product::Memory::kBytes);
      },
      typename P::Large(), typename P::Medium(), typename P::Two32(), typename P::Two32Long(),
      typename P::Two16(), typename P::Two16Long(), typename P::Two8Long(), typename P::One32(),
      typename P::One8());
}

template <TensorType kType>
cudaError_t load_gated_multiply_floats() {
  using P = FloatProducts<kType>;
  const cudaError_t status = load_all(gated_multiply_vectors_kernel<VectorProduct<kType, 1>>,
                                      gated_multiply_vectors_kernel<VectorProduct<kType, 2>>,
                                      gated_multiply_vectors_kernel<VectorProduct<kType, 4>>);
  if (status != cudaSuccess) return status;
  return load_float_tiles(
      []<typename Product>(Product) {
        return load(gated_multiply_float_tiles_kernel<Product>, Product::Memory::kBytes);
      },
      typename P::Large(), typename P::Medium(), typename P::Two32(), typename P::Two32Long(),
      typename P::Two16(), typename P::Two16Long(), typename P::Two8Long());
}

}  // namespace runnel
