// What becomes of a product: the device functions that write it.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/product_variants.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {

// The value of a ready row's column `output`, of a product. Zero beyond the matrix' rows.
__device__ inline float ready_value(const ProductOutput& to, uint32_t row, uint32_t output, float product) {
  if (output >= to.num_outputs) return 0.0f;
  const float y = to.has_bias ? product + to.bias[to.first_output + output] : product;
  if (!to.has_gates) return apply(to.nonlinearity, y);
  return apply(to.nonlinearity, to.ready.values[static_cast<size_t>(row) * to.ready.stride + output]) * y;
}

// What becomes of the product of the matrix's row 32 tile + lane() and row `row` of the batch. All lanes of a
// warp must call it and finish_gated, with products of 32 rows.
__device__ inline void finish(const ProductOutput& to, uint32_t tile, uint32_t row, float y) {
  const uint32_t output = tile * kWarpTileRows + lane();
  if (to.kind == ProductOutput::Kind::kReady) {
    store_ready_block(to.ready, row, tile * kWarpTileRows, ready_value(to, row, output, y));
    return;
  }
  if (output >= to.num_outputs) return;
  if (to.has_bias) y = y + to.bias[to.first_output + output];
  const size_t index = static_cast<size_t>(row) * to.floats.stride + to.first_output + output;
  if (to.kind == ProductOutput::Kind::kAdd) y = y + to.floats.values[index];
  to.floats.values[index] = y;
}

__device__ inline void finish_gated(const ReadyRows& out, Nonlinearity nonlinearity, uint32_t tile,
                                    uint32_t row, float gate, float up) {
  const bool is_there = tile * kWarpTileRows + lane() < out.width;
  store_ready_block(out, row, tile * kWarpTileRows, is_there ? apply(nonlinearity, gate) * up : 0.0f);
}

// The same for ready rows, for four columns of the tile from `column` on: see store_ready_quarters.

__device__ inline void finish_quarter(const ProductOutput& to, bool is_there, uint32_t row, uint32_t tile,
                                      uint32_t column, const float4& products) {
  const float of[kQuarterColumns] = {products.x, products.y, products.z, products.w};
  const uint32_t first = tile * kWarpTileRows;
  float y[kQuarterColumns];
  for (uint32_t j = 0; j < kQuarterColumns; ++j)
    y[j] = is_there ? ready_value(to, row, first + column + j, of[j]) : 0.0f;
  store_ready_quarters(to.ready, is_there, row, first, y);
}

__device__ inline void finish_gated_quarter(const ReadyRows& out, Nonlinearity nonlinearity, bool is_there,
                                            uint32_t row, uint32_t tile, uint32_t column, const float4& gates,
                                            const float4& ups) {
  const float gate[kQuarterColumns] = {gates.x, gates.y, gates.z, gates.w};
  const float up[kQuarterColumns] = {ups.x, ups.y, ups.z, ups.w};
  const uint32_t first = tile * kWarpTileRows;
  float y[kQuarterColumns];
  for (uint32_t j = 0; j < kQuarterColumns; ++j)
    y[j] = first + column + j < out.width ? apply(nonlinearity, gate[j]) * up[j] : 0.0f;
  store_ready_quarters(out, is_there, row, first, y);
}

}  // namespace runnel
