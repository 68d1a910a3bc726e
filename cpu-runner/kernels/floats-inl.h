// Register blocks of products with weights that are floats: column by column, the values of the rows of a
// tile.
#pragma once

#include "cpu-runner/kernels/segment-inl.h"

namespace runnel::RUNNEL_KERNELS {

// Where values of this many bytes lie.
template <size_t kValueBytes>
struct FloatLayout {
  static constexpr size_t kRowBytes = kValueBytes;
  static constexpr bool kIsFloat = true;
  using RegisterBlocks = FloatWidths;
  RUNNEL_INLINE WeightSegment segment(const std::byte* tile, uint32_t first_column, uint32_t num_columns) {
    return {nullptr,    nullptr, nullptr, nullptr, tile + size_t{first_column} * kTileRows * kValueBytes,
            num_columns};
  }
  RUNNEL_INLINE WeightSegment from_row(const WeightSegment& segment, uint32_t row) {
    return {nullptr, nullptr, nullptr, nullptr, segment.weights + row * kValueBytes, segment.num_columns};
  }
};

struct F16 : FloatLayout<2> {
  RUNNEL_INLINE Floats load(const std::byte* from) { return load_halves(from); }
};

struct BF16 : FloatLayout<2> {
  RUNNEL_INLINE Floats load(const std::byte* from) { return load_upper_halves(from); }
};

struct F32 : FloatLayout<4> {
  RUNNEL_INLINE Floats load(const std::byte* from) {
    return load_floats(reinterpret_cast<const float*>(from));
  }
};

// acc = acc + the segment's part of the products.
template <typename Format, int kVectors, int kColumns>
requires requires {
  Format::load;
}
RUNNEL_INLINE void add_segment(const WeightSegment& segment, const ColumnGroup& x,
                               Floats (&acc)[kColumns][kVectors]) {
  for (uint32_t k = 0; k < segment.num_columns; ++k) {
    Floats weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = Format::load(segment.weights + (k * kTileRows + v * kVectorRows) * Format::kRowBytes);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const Floats value = in_all_lanes(x.values[c * x.stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[c][v] = fma_lanes(weights[v], value, acc[c][v]);
    }
  }
}

}  // namespace runnel::RUNNEL_KERNELS
