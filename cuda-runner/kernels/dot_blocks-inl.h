// The product of a block of 32 columns of one row of a quantised matrix and of one row of the batch.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/quant_blocks-inl.h"

namespace runnel {

// A block of a row of the batch. Types with two sums use half_sums, others sum and scaled_sum.
struct RowBlock {
  uint4 first;   // columns 0, 16, 4, 20, four of each (ReadyRows)
  uint4 second;  // columns 8, 24, 12, 28
  float scale;
  float scaled_sum = 0.0f;
  int32_t sum = 0;
  int32_t half_sums = 0;
};

// Returns acc + d_w d q_w q (+ m_w X). codes: of the eight fours.
template <TensorType kType>
__device__ inline float add_dots(float acc, const uint32_t (&codes)[8], const BlockScales<kType>& scales,
                                 const RowBlock& x) {
  using Scales = BlockScales<kType>;
  int32_t low = dot4(codes[1], x.first.z, dot4(codes[0], x.first.x, 0));
  low = dot4(codes[3], x.second.z, dot4(codes[2], x.second.x, low));
  int32_t high = dot4(codes[4], x.first.y, Scales::kHasTwoSums ? 0 : low);
  high = dot4(codes[6], x.second.y, dot4(codes[5], x.first.w, high));
  high = dot4(codes[7], x.second.w, high);
  if constexpr (Scales::kHasTwoSums) {
    return scales.add_two(acc, {low, high}, x.scale, {half_sum(x.half_sums, 0), half_sum(x.half_sums, 1)});
  } else {
    const int32_t sum = Scales::kExcess == 0 ? high : high - Scales::kExcess * x.sum;
    return scales.add(acc, static_cast<float>(sum), x.scale, x.scaled_sum);
  }
}

}  // namespace runnel
