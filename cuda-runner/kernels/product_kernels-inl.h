// The kernels of products, and their launchers. Each type of weights has kernels of its own, so that a model
// loads those of its types alone.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product_choice-inl.h"
#include "cuda-runner/kernels/product_output-inl.h"
#include "cuda-runner/kernels/resident_blocks.h"

namespace runnel {

// --- a few rows. Grid x: tiles of the matrix; y: groups of rows of the batch.

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    multiply_vectors_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, ProductOutput to) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t row = first_row + warp();
  const float total = Product::compute(matrix, blockIdx.x, in, first_row, num_rows, memory);
  if (warp() < Product::kColumns && row < num_rows) finish(to, blockIdx.x, row, total);
}

// A tile is a block of out's columns.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    gated_multiply_vectors_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity, ReadyRows in,
                                  uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t row = first_row + warp();
  const float gated = Product::compute(gate, blockIdx.x, in, first_row, num_rows, memory);
  const float scaled = Product::compute(up, blockIdx.x, in, first_row, num_rows, memory);
  if (warp() < Product::kColumns && row < num_rows)
    finish_gated(out, nonlinearity, blockIdx.x, row, gated, scaled);
}

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    multiply_segments_kernel(DeviceMatrix matrix, typename Product::In in, uint32_t num_rows,
                             ProductOutput to) {
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
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    gated_multiply_segments_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity,
                                   typename Product::In in, uint32_t num_rows, ReadyRows out) {
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
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    multiply_tiles_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, ProductOutput to) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  const uint32_t first_tile = blockIdx.x * Product::kTiles;
  Product::compute({matrix, matrix, first_tile, first_tile + Product::kTiles / 2}, in, first_row, num_rows,
                   memory);
  if constexpr (!Product::kHasShortEnd) {
    if (to.kind == ProductOutput::Kind::kReady) {
      for_quarters<Product>(Product::kTiles, [&](uint32_t tile, uint32_t row, uint32_t column) {
        if ((first_tile + tile) * kWarpTileRows >= matrix.rows) return;  // whole warps
        finish_quarter(to, first_row + row < num_rows, first_row + row, first_tile + tile, column,
                       Product::results(memory, tile, row, column));
      });
      return;
    }
  }
#pragma unroll(Product::kHasShortEnd ? 1 : 4)
  for (uint32_t i = warp(); i < Product::kTiles * Product::kColumns; i += Product::kMaxThreads / kWarpSize) {
    const uint32_t tile = i / Product::kColumns;
    const uint32_t row = i % Product::kColumns;
    if (first_row + row < num_rows && (first_tile + tile) * kWarpTileRows < matrix.rows)
      finish(to, first_tile + tile, first_row + row, Product::result(memory, tile, row));
  }
}

template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    gated_multiply_tiles_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity, ReadyRows in,
                                uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  constexpr uint32_t kTiles = Product::kTiles / 2;
  const uint32_t first_tile = blockIdx.x * kTiles;
  Product::compute({gate, up, first_tile, first_tile}, in, first_row, num_rows, memory);
  for_quarters<Product>(kTiles, [&](uint32_t tile, uint32_t row, uint32_t column) {
    if ((first_tile + tile) * kWarpTileRows >= gate.rows) return;  // whole warps
    finish_gated_quarter(out, nonlinearity, first_row + row < num_rows, first_row + row, first_tile + tile,
                         column, Product::results(memory, tile, row, column),
                         Product::results(memory, kTiles + tile, row, column));
  });
}

// --- launchers

template <typename Product>
constexpr auto multiply_kernel() {
  if constexpr (Product::kKind == ProductKind::kVectors) {
    return multiply_vectors_kernel<Product>;
  } else if constexpr (Product::kKind == ProductKind::kSegments) {
    return multiply_segments_kernel<Product>;
  } else {
    return multiply_tiles_kernel<Product>;
  }
}
template <typename Product>
constexpr auto gated_multiply_kernel() {
  if constexpr (Product::kKind == ProductKind::kVectors) {
    return gated_multiply_vectors_kernel<Product>;
  } else if constexpr (Product::kKind == ProductKind::kSegments) {
    return gated_multiply_segments_kernel<Product>;
  } else {
    return gated_multiply_tiles_kernel<Product>;
  }
}

template <TensorType kType, typename In>
cudaError_t multiply_of(const DeviceMatrix& matrix, const In& in, uint32_t num_rows, const ProductOutput& to,
                        cudaStream_t stream, ProductForm form) {
  return with_product<kType, 1, In>(matrix, num_rows, form, [&]<typename P>(P) {
    const auto config = product_config<P>(matrix, 1, num_rows, stream);
    return cudaLaunchKernelEx(&config, multiply_kernel<P>(), matrix, in, num_rows, to);
  });
}

template <TensorType kType, typename In>
cudaError_t gated_multiply_of(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                              const In& in, uint32_t num_rows, const ReadyRows& out, cudaStream_t stream,
                              ProductForm form) {
  return with_product<kType, 2, In>(gate, num_rows, form, [&]<typename P>(P) {
    const auto config = product_config<P>(gate, 2, num_rows, stream);
    return cudaLaunchKernelEx(&config, gated_multiply_kernel<P>(), gate, up, nonlinearity, in, num_rows, out);
  });
}

template <TensorType kType>
cudaError_t load_multiply_of() {
  return for_all_products<kType, 1>(
      []<typename P>(P) { return load(multiply_kernel<P>(), P::Memory::kBytes); });
}

template <TensorType kType>
cudaError_t load_gated_multiply_of() {
  return for_all_products<kType, 2>(
      []<typename P>(P) { return load(gated_multiply_kernel<P>(), P::Memory::kBytes); });
}

}  // namespace runnel

#define RUNNEL_PRODUCTS_OF_ROWS(type, In)                                                            \
  template cudaError_t runnel::multiply_of<runnel::TensorType::type>(                                \
      const DeviceMatrix&, const In&, uint32_t, const ProductOutput&, cudaStream_t, ProductForm);    \
  template cudaError_t runnel::gated_multiply_of<runnel::TensorType::type>(                          \
      const DeviceMatrix&, const DeviceMatrix&, Nonlinearity, const In&, uint32_t, const ReadyRows&, \
      cudaStream_t, ProductForm);

// Defines the functions of product_variants.h for a type.
#define RUNNEL_PRODUCTS_OF(type)                                             \
  RUNNEL_PRODUCTS_OF_ROWS(type, ReadyRows)                                   \
  RUNNEL_PRODUCTS_OF_ROWS(type, NormedRows)                                  \
  template cudaError_t runnel::load_multiply_of<runnel::TensorType::type>(); \
  template cudaError_t runnel::load_gated_multiply_of<runnel::TensorType::type>();
