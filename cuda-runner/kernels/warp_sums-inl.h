// Reductions over the lanes of a warp. All lanes must call them, and all get the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

// The sum, by the tree of halves of docs/numerics.md.
__device__ inline float tree_sum(float value) {
  for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) value = value + shuffle_xor(value, mask);
  return value;
}

// The bits of a float as a number that orders as floats do, and back.
__device__ inline uint32_t ordered_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float from_ordered_bits(uint32_t bits) {
  return std::bit_cast<float>((bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits);
}

// If a value is a NaN, the result may be one.
__device__ inline float largest(float value) {
  return from_ordered_bits(reduce_max(ordered_bits(value)));
}

// The largest absolute value. The bits are compared as integers, because a NaN is then larger than infinity
// and so becomes the result.
__device__ inline float largest_magnitude(float value) {
  return std::bit_cast<float>(reduce_max(std::bit_cast<uint32_t>(std::fabs(value))));
}

}  // namespace runnel
