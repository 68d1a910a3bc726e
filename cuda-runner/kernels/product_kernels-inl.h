// The kernels of products of quantised weights, and the launchers of products of one type of weights. Each
// type has kernels of its own, so that a model loads those of its types alone.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/float_product_kernels-inl.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product_launch-inl.h"
#include "cuda-runner/kernels/product_output-inl.h"
#include "cuda-runner/kernels/product_variants.h"
#include "cuda-runner/kernels/segment_product-inl.h"
#include "cuda-runner/kernels/tile_product-inl.h"

namespace runnel {

// --- a few rows. Grid x: tiles of the matrix; y: groups of rows of the batch.

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    multiply_segments_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, ProductOutput to) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  float totals[1][Product::kOwned];
  Product::compute(matrix, matrix, blockIdx.x, in, first_row, memory, totals);
  if (warp() >= Product::kOwners) return;
  for (uint32_t j = 0; j < Product::kOwned; ++j) {
    const uint32_t row = first_row + warp() + Product::kOwners * j;
    if (row < num_rows) finish(to, blockIdx.x, row, totals[0][j]);
  }
}

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    gated_multiply_segments_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity,
                                   ReadyRows in, uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  float totals[2][Product::kOwned];
  Product::compute(gate, up, blockIdx.x, in, first_row, memory, totals);
  if (warp() >= Product::kOwners) return;
  for (uint32_t j = 0; j < Product::kOwned; ++j) {
    const uint32_t row = first_row + warp() + Product::kOwners * j;
    if (row < num_rows) finish_gated(out, nonlinearity, blockIdx.x, row, totals[0][j], totals[1][j]);
  }
}

// --- many rows. Grid x: groups of four tiles, two of each matrix with a gate; y: groups of rows of the
// batch.

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    multiply_tiles_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, ProductOutput to) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t first_tile = blockIdx.x * Product::kTiles;
  Product::compute({matrix, matrix, first_tile, first_tile + 2}, in, first_row, memory);
  for (uint32_t i = warp(); i < Product::kTiles * Product::kColumns; i += Product::kMaxThreads / kWarpSize) {
    const uint32_t tile = i / Product::kColumns;
    const uint32_t row = i % Product::kColumns;
    if (first_row + row < num_rows && (first_tile + tile) * kWarpTileRows < matrix.rows)
      finish(to, first_tile + tile, first_row + row, Product::result(memory, tile, row));
  }
}

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    gated_multiply_tiles_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity, ReadyRows in,
                                uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t first_tile = blockIdx.x * 2;
  Product::compute({gate, up, first_tile, first_tile}, in, first_row, memory);
  for (uint32_t i = warp(); i < 2 * Product::kColumns; i += Product::kMaxThreads / kWarpSize) {
    const uint32_t tile = i / Product::kColumns;
    const uint32_t row = i % Product::kColumns;
    if (first_row + row < num_rows && (first_tile + tile) * kWarpTileRows < gate.rows)
      finish_gated(out, nonlinearity, first_tile + tile, first_row + row, Product::result(memory, tile, row),
                   Product::result(memory, 2 + tile, row));
  }
}

// --- launchers

// Products of tiles keep a large device busy with at least this many blocks. With fewer, products of segments
// are faster, although each of their blocks reads as many rows for a quarter of the weights.
inline constexpr uint32_t kManyTileBlocks = 128;

// With fewer blocks than this, products of segments have 16 warps each; with more, two blocks of 8 warps
// share a multiprocessor, and one computes while the other adds up its sums.
inline constexpr uint32_t kManySegmentBlocks = 200;

// Calls segments or tiles with an object of the product of quantised weights that a step of num_rows rows
// takes. kMatrices: 2 with a gate.
template <TensorType kType, uint32_t kMatrices, typename Segments, typename Tiles>
cudaError_t with_product(const DeviceMatrix& matrix, uint32_t num_rows, ProductForm form,
                         const Segments& segments, const Tiles& tiles) {
  const auto segments_of = [&](auto columns) {
    using Wide = SegmentProduct<kType, columns, kMatrices, 16>;
    const bool is_long = matrix.columns > 8 * kSegmentColumns;
    const bool are_few = num_tiles(matrix) * divide_up(num_rows, columns) < kManySegmentBlocks;
    return is_long && are_few && has_memory_for(Wide())
               ? segments(Wide())
               : segments(SegmentProduct<kType, columns, kMatrices, 8>());
  };
  using Tile = TileProduct<kType, 1>;
  using Split = TileProduct<kType, 2>;
  const auto num_blocks = [&]<typename P>(P) {
    return divide_up(num_tiles(matrix) * kMatrices, P::kTiles) * divide_up(num_rows, P::kColumns);
  };
  if (form == ProductForm::kBest && num_rows > 32) {
    if (num_blocks(Tile()) >= kManyTileBlocks)
      form = ProductForm::kTiles;
    else if (num_blocks(Split()) >= kManyTileBlocks)
      form = ProductForm::kSplitTiles;
  }
  if (form == ProductForm::kTiles && has_memory_for(Tile())) return tiles(Tile());
  if (form >= ProductForm::kTiles && has_memory_for(Split())) return tiles(Split());
  if (num_rows == 1) return segments_of(std::integral_constant<uint32_t, 1>());
  if (num_rows == 2) return segments_of(std::integral_constant<uint32_t, 2>());
  if (num_rows <= 8) return segments_of(std::integral_constant<uint32_t, 8>());
  if (num_rows <= 16) return segments_of(std::integral_constant<uint32_t, 16>());
  return segments_of(std::integral_constant<uint32_t, 32>());
}

template <TensorType kType>
cudaError_t multiply_of(const DeviceMatrix& matrix, const ReadyRows& in, uint32_t num_rows,
                        const ProductOutput& to, cudaStream_t stream, ProductForm form) {
  if constexpr (!is_quantised(kType)) {
    return multiply_floats<kType>(matrix, in, num_rows, to, stream, form);
  } else {
    const uint32_t tiles = num_tiles(matrix);
    return with_product<kType, 1>(
        matrix, num_rows, form,
        [&]<typename P>(P product) {
          const auto config = product_config(product, tiles, num_rows, stream);
          return cudaLaunchKernelEx(&config, multiply_segments_kernel<P>, matrix, in, num_rows, to);
        },
        [&]<typename P>(P product) {
          const auto config = product_config(product, divide_up(tiles, P::kTiles), num_rows, stream);
          return cudaLaunchKernelEx(&config, multiply_tiles_kernel<P>, matrix, in, num_rows, to);
        });
  }
}

template <TensorType kType>
cudaError_t gated_multiply_of(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                              const ReadyRows& in, uint32_t num_rows, const ReadyRows& out,
                              cudaStream_t stream, ProductForm form) {
  if constexpr (!is_quantised(kType)) {
    return gated_multiply_floats<kType>(gate, up, nonlinearity, in, num_rows, out, stream, form);
  } else {
    const uint32_t tiles = num_tiles(gate);
    return with_product<kType, 2>(
        gate, num_rows, form,
        [&]<typename P>(P product) {
          const auto config = product_config(product, tiles, num_rows, stream);
          return cudaLaunchKernelEx(&config, gated_multiply_segments_kernel<P>, gate, up, nonlinearity, in,
                                    num_rows, out);
        },
        [&]<typename P>(P product) {
          const auto config = product_config(product, divide_up(2 * tiles, P::kTiles), num_rows, stream);
          return cudaLaunchKernelEx(&config, gated_multiply_tiles_kernel<P>, gate, up, nonlinearity, in,
                                    num_rows, out);
        });
  }
}

// Calls of(product) for every product of quantised weights that the device has the memory for, until it
// fails.
template <TensorType kType, uint32_t kMatrices, typename Of>
cudaError_t for_all_products(const Of& of) {
  cudaError_t status = cudaSuccess;
  const auto add = [&](auto product) {
    if (status == cudaSuccess && has_memory_for(product)) status = of(product);
  };
  add(SegmentProduct<kType, 1, kMatrices, 8>());
  add(SegmentProduct<kType, 1, kMatrices, 16>());
  add(SegmentProduct<kType, 2, kMatrices, 8>());
  add(SegmentProduct<kType, 2, kMatrices, 16>());
  add(SegmentProduct<kType, 8, kMatrices, 8>());
  add(SegmentProduct<kType, 8, kMatrices, 16>());
  add(SegmentProduct<kType, 16, kMatrices, 8>());
  add(SegmentProduct<kType, 16, kMatrices, 16>());
  add(SegmentProduct<kType, 32, kMatrices, 8>());
  add(SegmentProduct<kType, 32, kMatrices, 16>());
  add(TileProduct<kType, 1>());
  add(TileProduct<kType, 2>());
  return status;
}

template <typename Product>
concept IsTileProduct = requires {
  Product::kSplit;
};

template <TensorType kType>
cudaError_t load_multiply_of() {
  if constexpr (is_quantised(kType)) {
    return for_all_products<kType, 1>([]<typename P>(P) {
      if constexpr (IsTileProduct<P>)
        return load(multiply_tiles_kernel<P>, P::Memory::kBytes);
      else
        return load(multiply_segments_kernel<P>, P::Memory::kBytes);
    });
  } else {
    return load_multiply_floats<kType>();
  }
}

template <TensorType kType>
cudaError_t load_gated_multiply_of() {
  if constexpr (is_quantised(kType)) {
    return for_all_products<kType, 2>([]<typename P>(P) {
      if constexpr (IsTileProduct<P>)
        return load(gated_multiply_tiles_kernel<P>, P::Memory::kBytes);
      else
        return load(gated_multiply_segments_kernel<P>, P::Memory::kBytes);
    });
  } else {
    return load_gated_multiply_floats<kType>();
  }
}

}  // namespace runnel

// Defines the functions of product_variants.h for a type.
#define RUNNEL_PRODUCTS_OF(type)                                                                            \
  template cudaError_t runnel::multiply_of<runnel::TensorType::type>(                                       \
      const DeviceMatrix&, const ReadyRows&, uint32_t, const ProductOutput&, cudaStream_t, ProductForm);    \
  template cudaError_t runnel::gated_multiply_of<runnel::TensorType::type>(                                 \
      const DeviceMatrix&, const DeviceMatrix&, Nonlinearity, const ReadyRows&, uint32_t, const ReadyRows&, \
      cudaStream_t, ProductForm);                                                                           \
  template cudaError_t runnel::load_multiply_of<runnel::TensorType::type>();                                \
  template cudaError_t runnel::load_gated_multiply_of<runnel::TensorType::type>();
