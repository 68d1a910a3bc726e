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

// --- many rows. Grid x: groups of tiles, half of them of each matrix with a gate; y: groups of rows of the
// batch. Results that become ready rows are taken by quarters of warps (store_ready_quarters).

// Calls of(tile, row, column) for the warp's part of num_tiles tiles and all rows of a block, where lanes 8 i
// to 8 i + 7 have a row, and each the four columns of the tile from `column` on.
template <typename Product, typename Of>
__device__ inline void for_quarters(uint32_t num_tiles, const Of& of) {
  constexpr uint32_t kRows = kWarpSize / kQuarterLanes;
  constexpr uint32_t kSteps = Product::kColumns / kRows;  // of a tile
  for (uint32_t i = warp(); i < num_tiles * kSteps; i += Product::kMaxThreads / kWarpSize)
    of(i / kSteps, i % kSteps * kRows + lane() / kQuarterLanes, kQuarterColumns * (lane() % kQuarterLanes));
}

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    multiply_tiles_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, ProductOutput to) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t first_tile = blockIdx.x * Product::kTiles;
  Product::compute({matrix, matrix, first_tile, first_tile + Product::kTiles / 2}, in, first_row, memory);
  if (to.kind == ProductOutput::Kind::kReady) {
    for_quarters<Product>(Product::kTiles, [&](uint32_t tile, uint32_t row, uint32_t column) {
      if ((first_tile + tile) * kWarpTileRows >= matrix.rows) return;  // whole warps
      const float4 y = Product::results(memory, tile, row, column);
      finish_quarter(to, first_row + row < num_rows, first_row + row, (first_tile + tile) * kWarpTileRows,
                     column, {y.x, y.y, y.z, y.w});
    });
    return;
  }
#pragma unroll 4
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
  constexpr uint32_t kTiles = Product::kTiles / 2;
  const uint32_t first_tile = blockIdx.x * kTiles;
  Product::compute({gate, up, first_tile, first_tile}, in, first_row, memory);
  for_quarters<Product>(kTiles, [&](uint32_t tile, uint32_t row, uint32_t column) {
    if ((first_tile + tile) * kWarpTileRows >= gate.rows) return;  // whole warps
    const float4 gates = Product::results(memory, tile, row, column);
    const float4 ups = Product::results(memory, kTiles + tile, row, column);
    const float g[kQuarterColumns] = {gates.x, gates.y, gates.z, gates.w};
    const float u[kQuarterColumns] = {ups.x, ups.y, ups.z, ups.w};
    const uint32_t first_column = (first_tile + tile) * kWarpTileRows;
    float y[kQuarterColumns];
    for (uint32_t j = 0; j < kQuarterColumns; ++j)
      y[j] = first_column + column + j < out.width ? apply(nonlinearity, g[j]) * u[j] : 0.0f;
    store_ready_quarters(out, first_row + row < num_rows, first_row + row, first_column, y);
  });
}

// --- launchers

// For many rows of the batch, and for grids that would be small.
inline constexpr TileShape kTileShape = {.parts = 1, .tiles = 4, .column_warps = 2, .groups = 4, .blocks = 2};
inline constexpr TileShape kSplitTileShape = {
    .parts = 2, .tiles = 2, .column_warps = 1, .groups = 4, .blocks = 4};

template <typename Product>
concept IsTileProduct = requires {
  Product::kParts;
};

// Calls segments with an object of the product of segments for kColumns rows of the batch at a time.
template <TensorType kType, uint32_t kColumns, uint32_t kMatrices, typename Segments>
cudaError_t with_segments(const DeviceMatrix& matrix, uint32_t num_rows, const Segments& segments) {
  using Wide = SegmentProduct<kType, kColumns, kMatrices, 16>;
  using Normal = SegmentProduct<kType, kColumns, kMatrices, 8>;
  // Small blocks of tensor cores are for devices with less shared memory. Dot products need little.
  using Small = SegmentProduct<kType, kColumns, kMatrices, Normal::kHasDots ? 8 : 4>;
  // Blocks of 16 warps, one a multiprocessor, are faster until there are more of them: then blocks of 8 warps
  // share a multiprocessor, and one computes while the other adds up its sums.
  const uint32_t num_blocks = num_tiles(matrix) * divide_up(num_rows, kColumns);
  const uint32_t max_wide = num_multiprocessors() * (Normal::kHasDots ? 3 : 2) / 2;
  const bool is_long = matrix.columns > 8 * kSegmentColumns;
  if (is_long && num_blocks <= max_wide && has_memory_for(Wide())) return segments(Wide());
  return has_memory_for(Normal()) ? segments(Normal()) : segments(Small());
}

// Calls segments or tiles with an object of the product of quantised weights that a step of num_rows rows
// takes. kMatrices: 2 with a gate.
template <TensorType kType, uint32_t kMatrices, typename Segments, typename Tiles>
cudaError_t with_product(const DeviceMatrix& matrix, uint32_t num_rows, ProductForm form,
                         const Segments& segments, const Tiles& tiles) {
  // Times as for Q4_0.
  const Timed<SegmentProduct<kType, 32, kMatrices, 8>, 29 * kMatrices> segment{};
  const Timed<TileProduct<kType, kTileShape>, 168> tile{};
  const Timed<TileProduct<kType, kSplitTileShape>, 108> split{};
  if (form == ProductForm::kTiles && has_memory_for(tile.product)) return tiles(tile.product);
  if (form >= ProductForm::kTiles && has_memory_for(split.product)) return tiles(split.product);
  if (num_rows == 1) return with_segments<kType, 1, kMatrices>(matrix, num_rows, segments);
  if (num_rows == 2) return with_segments<kType, 2, kMatrices>(matrix, num_rows, segments);
  if (num_rows <= 8) return with_segments<kType, 8, kMatrices>(matrix, num_rows, segments);
  if (num_rows <= 16) return with_segments<kType, 16, kMatrices>(matrix, num_rows, segments);
  const auto of = [&]<typename Product>(Product product) {
    if constexpr (IsTileProduct<Product>)
      return tiles(product);
    else
      return with_segments<kType, 32, kMatrices>(matrix, num_rows, segments);
  };
  if (num_rows <= 32 || form == ProductForm::kSegments || !has_memory_for(split.product))
    return of(segment.product);
  return with_fastest(num_tiles(matrix) * kMatrices, num_rows, of, segment, tile, split);
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
  const auto add_segments = [&]<uint32_t kColumns>(std::integral_constant<uint32_t, kColumns>) {
    add(SegmentProduct<kType, kColumns, kMatrices, 16>());
    add(SegmentProduct<kType, kColumns, kMatrices, 8>());
    if constexpr (kColumns >= kGroupRows) add(SegmentProduct<kType, kColumns, kMatrices, 4>());
  };
  add_segments(std::integral_constant<uint32_t, 1>());
  add_segments(std::integral_constant<uint32_t, 2>());
  add_segments(std::integral_constant<uint32_t, 8>());
  add_segments(std::integral_constant<uint32_t, 16>());
  add_segments(std::integral_constant<uint32_t, 32>());
  add(TileProduct<kType, kTileShape>());
  add(TileProduct<kType, kSplitTileShape>());
  return status;
}

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
