// What words of lang.h do on devices below 8.0, in other words. lang.h includes it, and so does the
// emulator's, which runs it if its device is one of these.
#pragma once

#include <cstdint>

namespace runnel {

// All lanes get the sum, which wraps, or the largest.
__device__ inline int32_t add_by_shuffles(int32_t value) {
  auto sum = static_cast<uint32_t>(value);
  for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  return static_cast<int32_t>(sum);
}
__device__ inline uint32_t max_by_shuffles(uint32_t value) {
  for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const uint32_t other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

// mma_s8 without tensor cores for bytes: in turn, the four lanes that hold a row of A or a column of B give
// it to the others.
__device__ inline void mma_s8_by_dots(int32_t (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                      const int32_t (&from)[4]) {
  const uint32_t group = lane() / 4;
  const uint32_t pair = 2 * (lane() % 4);
  for (int i = 0; i < 4; ++i) sums[i] = from[i];
  for (uint32_t t = 0; t < 4; ++t) {
    const uint32_t row_lane = 4 * group + t;
    uint32_t a_of[4];
    for (int i = 0; i < 4; ++i) a_of[i] = shuffle(a[i], row_lane);
    for (uint32_t j = 0; j < 2; ++j) {
      const uint32_t column_lane = 4 * (pair + j) + t;
      const uint32_t b_low = shuffle(b[0], column_lane);
      const uint32_t b_high = shuffle(b[1], column_lane);
      sums[j] = dot4(a_of[2], b_high, dot4(a_of[0], b_low, sums[j]));
      sums[2 + j] = dot4(a_of[3], b_high, dot4(a_of[1], b_low, sums[2 + j]));
    }
  }
}

}  // namespace runnel
