// Register blocks of products of quantised weights with activations that stay floats: --activations f32.
#pragma once

#include "cpu-runner/kernels/quant_layout-inl.h"

namespace runnel::RUNNEL_KERNELS {

template <TensorType kType>
struct F32Quants : QuantLayout<kType> {
  using Layout = QuantLayout<kType>;
  using RegisterBlocks = FloatWidths;

  // q of byte i of codes.
  RUNNEL_INLINE Ints quants(Ints codes, uint32_t i) {
    if constexpr (Layout::kFormat.has_values()) {
      static constexpr ByteTable kTable = value_table<Layout::kFormat>(0);
      return (look_up(kTable, codes) << static_cast<int32_t>(24 - 8 * i)) >> 24;
    }
    return ((codes << static_cast<int32_t>(24 - 8 * i)) >> 24) - Layout::kFormat.code_offset;
  }
};

// acc = acc + the segment's part of the products.
template <typename Format, int kVectors, int kColumns>
requires requires(Ints codes) {
  Format::quants(codes, 0);
}
RUNNEL_INLINE void add_segment(const WeightSegment& segment, const ColumnGroup& x,
                               Floats (&acc)[kColumns][kVectors]) {
  constexpr bool kHasTwoSums = Format::kFormat.num_sums() == 2;
  for (uint32_t block = 0; block < segment.num_columns / kBlockColumns; ++block) {
    const std::byte* words = segment.weights + block * Format::kBlockBytes;
    Floats sums[kColumns][kVectors] = {};
    Floats x_sums[kColumns][kVectors] = {};  // multiplied by sub-minima
#pragma GCC unroll 1
    for (uint32_t four = 0; four < kBlockColumns / 4; ++four) {
      const uint32_t half = four / (kBlockColumns / 8);
#pragma GCC unroll 4
      for (uint32_t i = 0; i < 4; ++i) {
        Floats weights[kVectors];
        Floats minima[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          const Ints q = Format::quants(Format::codes_of(words + v * sizeof(Ints), four), i);
          weights[v] = floats_of(kHasTwoSums ? q * Format::sub_scales_of(segment, block, v, half) : q);
          if (kHasTwoSums) minima[v] = floats_of(Format::sub_minima_of(segment, block, v, half));
        }
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) {
          const Floats value = in_all_lanes(x.values[c * x.stride + block * kBlockColumns + four * 4 + i]);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            sums[c][v] = fma_lanes(weights[v], value, sums[c][v]);
            if (kHasTwoSums && Format::kFormat.has_minimum)
              x_sums[c][v] = fma_lanes(minima[v], value, x_sums[c][v]);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Floats scales = Format::scales(segment, block, v);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        acc[c][v] = fma_lanes(scales, sums[c][v], acc[c][v]);
        if (!Format::kFormat.has_minimum) continue;
        const Floats x_sum = kHasTwoSums ? x_sums[c][v] : in_all_lanes(x.blocks[block * kPanelRows + c].sum);
        acc[c][v] = fma_lanes(Format::minima(segment, block, v), x_sum, acc[c][v]);
      }
    }
  }
}

}  // namespace runnel::RUNNEL_KERNELS
