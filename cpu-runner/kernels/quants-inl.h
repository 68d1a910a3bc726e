// Register blocks of products with quantised weights: a few vectors of a tile's rows times a few columns.
#pragma once

#include "cpu-runner/kernels/dots-inl.h"
#include "cpu-runner/kernels/quant_layout-inl.h"

namespace runnel::RUNNEL_KERNELS {

template <bool kHasSign, bool kIsSmall>
struct DotsOf {
  using Type = DotsUnsigned;
};
template <>
struct DotsOf<false, true> {
  using Type = DotsSmall;
};
template <bool kIsSmall>
struct DotsOf<true, kIsSmall> {
  using Type = DotsSigned;
};

// The sums of products of a block's bytes with activations are too large by kExcess times the sums of the
// activations.
template <TensorType kType>
struct I8Quants : QuantLayout<kType> {
  using Layout = QuantLayout<kType>;
  static constexpr int32_t kLargestCode = (1 << Layout::kFormat.code_bits) - 1;
  static constexpr int32_t kLargestSum = kLargestCode * 127 * 2 * Layout::kFormat.sum_fours();
  static constexpr bool kHasValues = Layout::kFormat.has_values();
  static constexpr bool kHasSign =
      Layout::kFormat.code_bits == 8 || (kHasValues && Layout::kFormat.code_offset == 0);
  using Dots = typename DotsOf<kHasSign, (!kHasValues && kLargestSum < 32768)>::Type;
  static constexpr int32_t kExcess = Layout::kFormat.code_offset + Dots::kExcess;

  RUNNEL_INLINE Ints bytes(Ints low, Ints high, uint32_t p) {
    const Ints codes = Layout::codes(low, high, p);
    if constexpr (kHasValues) {
      static constexpr ByteTable kTable = value_table<Layout::kFormat>(kExcess);
      return look_up(kTable, codes);
    }
    return Dots::weights(codes);
  }
};

// sums[c][v] = Σ q_w q of the weights of a block that have a sum of their own: all, or half of them.
template <typename Format, int kVectors, int kColumns>
RUNNEL_INLINE void add_up(const std::byte* words, uint32_t half, const int8_t* x, size_t x_stride,
                          typename Format::Dots::Sum (&sums)[kColumns][kVectors]) {
  Ints high[kVectors] = {};
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) high[v] = Format::high_word(words + v * sizeof(Ints), half);
    // Unrolled, GCC would load what is for later words and spill the sums.
#pragma GCC unroll 1
  for (uint32_t i = 0; i < Format::kSumWords; ++i) {
    const uint32_t w = half * Format::kSumWords + i;
#pragma GCC unroll 4
    for (uint32_t p = 0; p < Format::kParts; ++p) {
      Ints weights[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        weights[v] = Format::bytes(load_ints(words + w * kWordRowBytes + v * sizeof(Ints)), high[v], p);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        const Ints four = four_in_all_lanes(x + c * x_stride + 4 * four_of<Format::kFormat>(w, p));
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) Format::Dots::add(sums[c][v], weights[v], four);
      }
    }
    if (Format::kHighBits > 0) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) high[v] >>= Format::kHighBits;
    }
  }
}

// acc = acc + the segment's share.
template <typename Format, int kVectors, int kColumns>
requires requires {
  typename Format::Dots;
}
RUNNEL_INLINE void add_segment(const WeightSegment& segment, const Columns& x,
                               Floats (&acc)[kColumns][kVectors]) {
  constexpr bool kHasTwoSums = Format::kFormat.num_sums() == 2;
  for (uint32_t block = 0; block < segment.num_columns / kBlockColumns; ++block) {
    const std::byte* words = segment.weights + block * Format::kBlockBytes;
    const int8_t* quants = x.quants + block * kBlockColumns;
    Ints totals[kColumns][kVectors] = {};
#pragma GCC unroll 2
    for (uint32_t half = 0; half < Format::kFormat.num_sums(); ++half) {
      typename Format::Dots::Sum sums[kColumns][kVectors] = {};
      add_up<Format>(words, half, quants, x.stride, sums);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Ints sub_scales{};
        if (kHasTwoSums) sub_scales = Format::sub_scales_of(segment, block, v, half);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) {
          const Ints sum = Format::Dots::total(sums[c][v]);
          totals[c][v] = kHasTwoSums ? totals[c][v] + sum * sub_scales : sum;
        }
      }
    }
    Floats scales[kVectors];
    Floats minima[kVectors];
    Ints excess[kVectors];      // of sums of the first half and of the second
    Ints sub_minima[kVectors];  // alike
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      scales[v] = Format::scales(segment, block, v);
      if (Format::kFormat.has_minimum) minima[v] = Format::minima(segment, block, v);
      if (kHasTwoSums) excess[v] = times(Format::sub_scale_pairs(segment, block, v), Format::kExcess);
      if (kHasTwoSums) sub_minima[v] = Format::sub_minimum_pairs(segment, block, v);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const size_t at = c * x.blocks_stride + block;
      const Floats x_scale = in_all_lanes(x.scales[at]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Ints sum = totals[c][v];
        if (Format::kExcess != 0) {
          sum -= kHasTwoSums ? dot_pairs(excess[v], in_all_lanes(x.half_sums[at]))
                             : in_all_lanes(x.quant_sums[at] * Format::kExcess);
        }
        acc[c][v] = fma_lanes(scales[v] * x_scale, floats_of(sum), acc[c][v]);
        if (!Format::kFormat.has_minimum) continue;
        const Floats x_sum =
            kHasTwoSums ? x_scale * floats_of(dot_pairs(sub_minima[v], in_all_lanes(x.half_sums[at])))
                        : in_all_lanes(x.sums[at]);
        acc[c][v] = fma_lanes(minima[v], x_sum, acc[c][v]);
      }
    }
  }
}

}  // namespace runnel::RUNNEL_KERNELS
