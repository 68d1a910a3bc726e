// The device function that makes rows ready for a product.
#pragma once

#include <bit>
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
    rows.scaled_sums[block] = scale * static_cast<float>(sum);
    rows.half_sums[block] =
        (first_sum & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(other_sum) << 16);
  }
}

inline constexpr uint32_t kQuarterLanes = 8;  // lanes that store a block of a row
inline constexpr uint32_t kQuarterColumns = kBlockColumns / kQuarterLanes;  // of each of them

// A lane's part of a block that eight lanes make ready.
struct ReadyQuarter {
  uint32_t bytes;  // of columns 4 (lane() % 8) to that + 3, from byte ready_byte of the first on
  float scale;
  int32_t sum;        // of the bytes of this half of the block
  int32_t other_sum;  // of those of the other half; the first lane has them in the order of ReadyRows

  __device__ float scaled_sum() const { return scale * static_cast<float>(sum + other_sum); }
  __device__ int32_t half_sums() const {
    return (sum & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(other_sum) << 16);
  }
};

// Four blocks at a time, with the chains of shuffles and divisions of one: lanes 8 i to 8 i + 7 have one,
// each the values of columns 4 (lane() % 8) to that + 3. All lanes of a warp must call it.
__device__ inline ReadyQuarter ready_quarter(const float (&values)[kQuarterColumns]) {
  uint32_t largest_bits = 0;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(std::fabs(value));
    largest_bits = bits > largest_bits ? bits : largest_bits;
  }
  for (uint32_t mask = kQuarterLanes / 2; mask > 0; mask /= 2) {
    const uint32_t other = shuffle_xor(largest_bits, mask);
    largest_bits = other > largest_bits ? other : largest_bits;
  }
  const float scale = std::bit_cast<float>(largest_bits) / 127.0f;
  const bool has_quants = std::isfinite(scale) && scale > 0.0f;
  int32_t sum = 0;
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < kQuarterColumns; ++i) {
    const float quotient =
        has_quants ? std::fmin(std::fmax(std::rint(values[i] / scale), -127.0f), 127.0f) : 0.0f;
    const auto quant = static_cast<int32_t>(quotient);
    sum += quant;
    bytes |= (static_cast<uint32_t>(quant) & 0xff) << (8 * i);
  }
  for (uint32_t mask = kQuarterLanes / 4; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  const int32_t other_sum = shuffle_xor(sum, kQuarterLanes / 2);
  return {bytes, scale, sum, other_sum};
}

// The same as store_ready_block for four rows at a time, with a block for each eight lanes (ready_quarter),
// which begins at first_column. Rows that are not there are not stored.
__device__ inline void store_ready_quarters(const ReadyRows& rows, bool is_there, uint32_t row,
                                            uint32_t first_column, const float (&values)[kQuarterColumns]) {
  const ReadyQuarter quarter = ready_quarter(values);
  if (!is_there) return;
  const uint32_t column = kQuarterColumns * (lane() % kQuarterLanes);
  const size_t block = rows.block_index(first_column / kBlockColumns, row);
  rows.values.store<float4>(static_cast<size_t>(row) * rows.stride + first_column + column,
                            float4{values[0], values[1], values[2], values[3]});
  rows.quants.store<uint32_t>(block * kBlockColumns + ready_byte(column), quarter.bytes);
  if (column != 0) return;
  rows.scales[block] = quarter.scale;
  rows.scaled_sums[block] = quarter.scaled_sum();
  rows.half_sums[block] = quarter.half_sums();
}

}  // namespace runnel
