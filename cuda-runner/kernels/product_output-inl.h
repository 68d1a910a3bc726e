// What becomes of a product: the device functions that write it.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/product_variants.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {

// What becomes of the product of the matrix's row 32 tile + lane() and row `row` of the batch. All lanes of a
// warp must call them, with products of 32 rows.

__device__ inline void finish(const ProductOutput& to, uint32_t tile, uint32_t row, float y) {
  const uint32_t output = tile * kWarpTileRows + lane();
  const bool is_there = output < to.num_outputs;
  if (is_there && to.has_bias) y = y + to.bias[to.first_output + output];
  if (to.kind == ProductOutput::Kind::kReady) {
    if (to.has_gates && is_there)
      y = apply(to.nonlinearity, to.ready.values[static_cast<size_t>(row) * to.ready.stride + output]) * y;
    else if (is_there)
      y = apply(to.nonlinearity, y);
    store_ready_block(to.ready, row, tile * kWarpTileRows, is_there ? y : 0.0f);
    return;
  }
  if (!is_there) return;
  const size_t index = static_cast<size_t>(row) * to.floats.stride + to.first_output + output;
  if (to.kind == ProductOutput::Kind::kAdd) y = y + to.floats.values[index];
  to.floats.values[index] = y;
}

// The same for ready rows, for four columns of the matrix' rows from first_output + column on; see
// store_ready_quarters.
__device__ inline void finish_quarter(const ProductOutput& to, bool is_there, uint32_t row,
                                      uint32_t first_output, uint32_t column,
                                      const float (&products)[kQuarterColumns]) {
  float y[kQuarterColumns];
  for (uint32_t j = 0; j < kQuarterColumns; ++j) {
    const uint32_t output = first_output + column + j;
    y[j] = 0.0f;
    if (!is_there || output >= to.num_outputs) continue;
    y[j] = to.has_bias ? products[j] + to.bias[to.first_output + output] : products[j];
    if (to.has_gates) {
      y[j] =
          apply(to.nonlinearity, to.ready.values[static_cast<size_t>(row) * to.ready.stride + output]) * y[j];
    } else {
      y[j] = apply(to.nonlinearity, y[j]);
    }
  }
  store_ready_quarters(to.ready, is_there, row, first_output, y);
}

__device__ inline void finish_gated(const ReadyRows& out, Nonlinearity nonlinearity, uint32_t tile,
                                    uint32_t row, float gate, float up) {
  const bool is_there = tile * kWarpTileRows + lane() < out.width;
  store_ready_block(out, row, tile * kWarpTileRows, is_there ? apply(nonlinearity, gate) * up : 0.0f);
}

}  // namespace runnel
