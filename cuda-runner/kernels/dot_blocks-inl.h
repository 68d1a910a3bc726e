// The product of a block of 32 columns of one row of a quantised matrix and of one row of the batch.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/quant_blocks-inl.h"

namespace runnel {

// A block of a row of the batch. Types with minima use scaled_sum, or half_sums if they have two sums.
struct RowBlock {
  uint4 first;   // columns 0, 16, 4, 20, four of each (ReadyRows)
  uint4 second;  // columns 8, 24, 12, 28
  float scale;
  float scaled_sum = 0.0f;
  int32_t half_sums = 0;
};

// Returns acc + d_w d q_w q (+ m_w X). codes: the multipliers of the eight fours.
template <TensorType kType>
__device__ inline float add_dots(float acc, const uint32_t (&codes)[8], const BlockScales<kType>& scales,
                                 const RowBlock& x) {
  using Scales = BlockScales<kType>;
  using Sum = Multiplier<Scales::kFormat>;
  const int32_t first = Scales::kHasTwoSums ? 0 : Sum::first_sum();
  int32_t low = dot4(codes[1], x.first.z, dot4(codes[0], x.first.x, first));
  low = dot4(codes[3], x.second.z, dot4(codes[2], x.second.x, low));
  int32_t high = dot4(codes[4], x.first.y, Scales::kHasTwoSums ? 0 : low);
  high = dot4(codes[6], x.second.y, dot4(codes[5], x.first.w, high));
  high = dot4(codes[7], x.second.w, high);
  if constexpr (Scales::kHasTwoSums) {
    return scales.add_two(acc, {low, high}, x.scale, {half_sum(x.half_sums, 0), half_sum(x.half_sums, 1)});
  } else {
    return scales.add(acc, Sum::value_of(high), x.scale, x.scaled_sum);
  }
}

}  // namespace runnel
