// Register blocks of products with weights that are floats: column by column, the values of a tile's rows.
#pragma once

#include "cpu-runner/kernels/segment-inl.h"

namespace runnel::RUNNEL_KERNELS {

struct F16 {
  static constexpr uint32_t kBits = 16;
  static constexpr size_t kWeightBytes = 2;
  RUNNEL_INLINE Floats load(const std::byte* from) { return load_halves(from); }
};

struct F32 {
  static constexpr uint32_t kBits = 32;
  static constexpr size_t kWeightBytes = 4;
  RUNNEL_INLINE Floats load(const std::byte* from) {
    return load_floats(reinterpret_cast<const float*>(from));
  }
};

// acc = acc + the segment's share.
template <typename Format, int kVectors, int kColumns>
requires(Format::kBits >= 16) RUNNEL_INLINE
    void add_segment(const WeightSegment& segment, const Columns& x, Floats (&acc)[kColumns][kVectors]) {
  for (uint32_t k = 0; k < segment.num_columns; ++k) {
    Floats weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = Format::load(segment.weights + (k * kTileRows + v * kVectorRows) * Format::kWeightBytes);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const Floats value = in_all_lanes(x.values[c * x.stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[c][v] = fma_lanes(weights[v], value, acc[c][v]);
    }
  }
}

}  // namespace runnel::RUNNEL_KERNELS
