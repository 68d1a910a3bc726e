// The device function that makes rows ready for a product.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/ready_rows.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {

// Writes one block of a row. first_column must be a multiple of 32. All lanes of a warp must call it: lane i
// with the value of column first_column + i, or with 0 beyond the row's width.
__device__ inline void store_ready_block(const ReadyRows& rows, uint32_t row, uint32_t first_column,
                                         float value) {
  const float scale = largest_magnitude(value) / 127.0f;
  // The bytes of a block with a NaN or an infinity are 0, because the conversion of a NaN to an integer
  // differs from machine to machine.
  const bool has_quants = std::isfinite(scale) && scale > 0.0f;
  const float quotient = has_quants ? std::fmin(std::fmax(std::rint(value / scale), -127.0f), 127.0f) : 0.0f;
  const auto quant = static_cast<int32_t>(quotient);
  const size_t block = rows.block_index(first_column / kBlockColumns, row);
  rows.values[static_cast<size_t>(row) * rows.stride + first_column + lane()] = value;
  rows.quants[block * kBlockColumns + ready_byte(lane())] = static_cast<int8_t>(quant);
  // Both sums in one word: that of the columns from 16 on is multiplied by 2^16.
  const int32_t sums = reduce_add(lane() < kBlockColumns / 2 ? quant : quant * 0x10000);
  if (lane() == 0) {
    const int32_t first_sum = static_cast<int16_t>(sums);
    const int32_t other_sum = (sums - first_sum) / 0x10000;
    const int32_t sum = first_sum + other_sum;
    rows.scales[block] = scale;
    rows.sums[block] = sum;
    rows.scaled_sums[block] = scale * static_cast<float>(sum);
    rows.half_sums[block] =
        (first_sum & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(other_sum) << 16);
  }
}

}  // namespace runnel
