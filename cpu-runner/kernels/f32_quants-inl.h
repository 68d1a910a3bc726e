// Register blocks of products of quantised weights with activations that stay floats: --activations f32.
#pragma once

#include "cpu-runner/kernels/quants-inl.h"

namespace runnel::RUNNEL_KERNELS {

// Weight i of a part's four, as a float.
struct F32Q4_0 : FourBits {
  static constexpr bool kHasMinimum = false;
  RUNNEL_INLINE Floats weight(Ints word, uint32_t part, uint32_t i) {
    return floats_of(((word >> (8 * i + 4 * part)) & 15) - 8);
  }
};
struct F32Q4_1 : FourBits {
  static constexpr bool kHasMinimum = true;
  RUNNEL_INLINE Floats weight(Ints word, uint32_t part, uint32_t i) {
    return floats_of((word >> (8 * i + 4 * part)) & 15);
  }
};
struct F32Q8_0 : EightBits {
  static constexpr bool kHasMinimum = false;
  RUNNEL_INLINE Floats weight(Ints word, uint32_t, uint32_t i) {
    return floats_of((word << (24 - 8 * i)) >> 24);
  }
};

// acc = acc + the segment's share.
template <typename Format, int kVectors, int kColumns>
requires requires(Ints word) {
  Format::weight(word, 0, 0);
}
RUNNEL_INLINE void add_segment(const WeightSegment& segment, const Columns& x,
                               Floats (&acc)[kColumns][kVectors]) {
  for (uint32_t block = 0; block < segment.num_columns / kBlockColumns; ++block) {
    Floats sums[kColumns][kVectors] = {};
#pragma GCC unroll 1
    for (uint32_t four = 0; four < kBlockColumns / 4; ++four) {
      const uint32_t part = four / Format::kWords;
      const std::byte* word =
          segment.weights + (block * Format::kWords + four % Format::kWords) * kWordRowBytes;
#pragma GCC unroll 4
      for (uint32_t i = 0; i < 4; ++i) {
        Floats weights[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          weights[v] = Format::weight(load_ints(word + v * sizeof(Ints)), part, i);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) {
          const Floats value = in_all_lanes(x.values[c * x.stride + block * kBlockColumns + four * 4 + i]);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) sums[c][v] = fma_lanes(weights[v], value, sums[c][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const size_t at = block * kPlaneRowBytes + v * kVectorRows * sizeof(uint16_t);
      const Floats scales = load_halves(segment.scales + at);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        acc[c][v] = fma_lanes(scales, sums[c][v], acc[c][v]);
        if (Format::kHasMinimum) {
          const Floats x_sum = in_all_lanes(x.sums[c * x.blocks_stride + block]);
          acc[c][v] = fma_lanes(load_halves(segment.minima + at), x_sum, acc[c][v]);
        }
      }
    }
  }
}

}  // namespace runnel::RUNNEL_KERNELS
