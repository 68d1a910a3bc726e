// Register blocks of products with quantised weights: a few vectors of rows of a tile times a few columns.
#pragma once

#include <type_traits>

#include "cpu-runner/kernels/block_sums-inl.h"

namespace runnel::RUNNEL_KERNELS {

consteval int32_t largest_value(QuantFormat format) {
  int32_t largest = format.value(0);
  for (uint32_t code = 1; code < 16; ++code)
    if (format.value(code) > largest) largest = format.value(code);
  return largest;
}

// Weights as bytes for products with bytes. The sums of products of a block's bytes with activations are too
// large by kExcess times the sums of the activations.
template <TensorType kType>
struct I8Quants : QuantLayout<kType> {
  using Layout = QuantLayout<kType>;
  using RegisterBlocks = DotWidths;
  static constexpr bool kHasValues = Layout::kFormat.has_values();
  static constexpr bool kHasSign =
      Layout::kFormat.code_bits == 8 || (kHasValues && Layout::kFormat.code_offset == 0);
  using Dots = std::conditional_t<kHasSign, DotsSigned, DotsUnsigned>;
  static constexpr int32_t kExcess = Layout::kFormat.code_offset + Dots::kExcess;
  // The largest byte, if bytes have no sign.
  static constexpr int32_t kLargestWeight =
      kHasValues ? largest_value(Layout::kFormat) + kExcess : (1 << Layout::kFormat.code_bits) - 1;

  RUNNEL_INLINE Ints bytes(Ints low, Ints high, uint32_t p, uint32_t w = 0) {
    return bytes_for(Layout::codes(low, high, p, w));
  }
  // Those of one four of the block.
  RUNNEL_INLINE Ints bytes_of(const std::byte* words, uint32_t four) {
    return bytes_for(Layout::codes_of(words, four));
  }

 private:
  RUNNEL_INLINE Ints bytes_for(Ints codes) {
    if constexpr (kHasValues) {
      static constexpr ByteTable kTable = value_table<Layout::kFormat>(kExcess);
      return look_up(kTable, codes);
    }
    return Dots::weights(codes);
  }
};

// acc = acc + the segment's part of the products.
template <typename Format, int kVectors, int kColumns>
requires requires {
  typename Format::Dots;
}
RUNNEL_INLINE void add_segment(const WeightSegment& segment, const ColumnGroup& x,
                               Floats (&acc)[kColumns][kVectors]) {
  constexpr bool kHasTwoSums = Format::kFormat.num_sums() == 2;
  for (uint32_t block = 0; block < segment.num_columns / kBlockColumns; ++block) {
    Ints totals[kColumns][kVectors] = {};
    const ReadyBlock* const ready = x.blocks + block * kPanelRows;
    add_up_block<Format>(segment, block, ready, totals);
    Floats scales[kVectors];
    Floats minima[kVectors];
    Ints excess[kVectors];      // for the sums of the first half and of the second
    Ints sub_minima[kVectors];  // the same
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      scales[v] = Format::scales(segment, block, v);
      if (Format::kFormat.has_minimum) minima[v] = Format::minima(segment, block, v);
      if (kHasTwoSums) excess[v] = times(Format::sub_scale_pairs(segment, block, v), Format::kExcess);
      if (kHasTwoSums) sub_minima[v] = Format::sub_minimum_pairs(segment, block, v);
    }
#pragma GCC unroll 12
    for (int c = 0; c < kColumns; ++c) {
      const Floats x_scale = in_all_lanes(ready[c].scale);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Ints sum = totals[c][v];
        if (Format::kExcess != 0) {
          sum -= kHasTwoSums ? dot_pairs(excess[v], in_all_lanes(ready[c].half_sums))
                             : in_all_lanes(ready[c].quant_sum) * Format::kExcess;
        }
        acc[c][v] = fma_lanes(scales[v] * x_scale, floats_of(sum), acc[c][v]);
        if (!Format::kFormat.has_minimum) continue;
        const Floats x_sum =
            kHasTwoSums ? x_scale * floats_of(dot_pairs(sub_minima[v], in_all_lanes(ready[c].half_sums)))
                        : in_all_lanes(ready[c].sum);
        acc[c][v] = fma_lanes(minima[v], x_sum, acc[c][v]);
      }
    }
  }
}

}  // namespace runnel::RUNNEL_KERNELS
