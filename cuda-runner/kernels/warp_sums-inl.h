// What the lanes of a warp find out together. All of them call it, and all get the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

// The tree of halves of docs/numerics.md.
__device__ inline float tree_sum(float value) {
  for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) value = value + shuffle_xor(value, mask);
  return value;
}

__device__ inline float largest(float value) {
  for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) value = std::fmax(value, shuffle_xor(value, mask));
  return value;
}

// As whole numbers: there, not-a-number is larger than infinity, and stays.
__device__ inline float largest_magnitude(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(std::fabs(value));
  for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const uint32_t other = shuffle_xor(bits, mask);
    bits = other > bits ? other : bits;
  }
  return std::bit_cast<float>(bits);
}

}  // namespace runnel
