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

__device__ inline void finish_gated(const ReadyRows& out, Nonlinearity nonlinearity, uint32_t tile,
                                    uint32_t row, float gate, float up) {
  const bool is_there = tile * kWarpTileRows + lane() < out.width;
  store_ready_block(out, row, tile * kWarpTileRows, is_there ? apply(nonlinearity, gate) * up : 0.0f);
}

}  // namespace runnel
