// Register blocks of products with quantised weights: a few vectors of a tile's rows times a few columns.
#pragma once

#include "cpu-runner/kernels/dots-inl.h"
#include "cpu-runner/kernels/segment-inl.h"

namespace runnel::RUNNEL_KERNELS {

// How a block's quants lie in its words, four bytes of each row: a word has kParts fours of weights, part p
// of word w being columns 16 p + 4 w of the block.
struct FourBits {
  static constexpr uint32_t kBits = 4;
  static constexpr size_t kWeightBytes = 4;
  static constexpr uint32_t kWords = 4;
  static constexpr uint32_t kParts = 2;
};
struct EightBits {
  static constexpr uint32_t kBits = 8;
  static constexpr size_t kWeightBytes = 4;
  static constexpr uint32_t kWords = 8;
  static constexpr uint32_t kParts = 1;
};

// The weights of a part as bytes. The sum of their products with activations is too large by kExcess times
// the sum of the activations.
struct Q4_0 : FourBits {
  using Dots = Dots4Bit;
  static constexpr int32_t kExcess = 8;
  static constexpr bool kHasMinimum = false;
  RUNNEL_INLINE Ints part(Ints word, uint32_t part) { return (part == 0 ? word : word >> 4) & 0x0f0f0f0f; }
};
struct Q4_1 : Q4_0 {
  static constexpr int32_t kExcess = 0;
  static constexpr bool kHasMinimum = true;
};
struct Q8_0 : EightBits {
  using Dots = Dots8Bit;
  static constexpr int32_t kExcess = Dots8Bit::kExcess;
  static constexpr bool kHasMinimum = false;
  RUNNEL_INLINE Ints part(Ints word, uint32_t) { return Dots8Bit::weights(word); }
};

// sums[c][v] = Σ q_w q of one block.
template <typename Format, int kVectors, int kColumns>
RUNNEL_INLINE void sum_block(const std::byte* quants, const int8_t* x, size_t x_stride,
                             typename Format::Dots::Sum (&sums)[kColumns][kVectors]) {
  // Unrolled, GCC would load what is for later words and spill the sums.
#pragma GCC unroll 1
  for (uint32_t w = 0; w < Format::kWords; ++w) {
#pragma GCC unroll 2
    for (uint32_t p = 0; p < Format::kParts; ++p) {
      Ints weights[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        weights[v] = Format::part(load_ints(quants + w * kWordRowBytes + v * sizeof(Ints)), p);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        const Ints four = four_in_all_lanes(x + c * x_stride + p * 16 + w * 4);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) Format::Dots::add(sums[c][v], weights[v], four);
      }
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
  for (uint32_t block = 0; block < segment.num_columns / kBlockColumns; ++block) {
    typename Format::Dots::Sum sums[kColumns][kVectors] = {};
    sum_block<Format>(segment.weights + block * Format::kWords * kWordRowBytes,
                      x.quants + block * kBlockColumns, x.stride, sums);
    Floats scales[kVectors];
    Floats minima[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const size_t at = block * kPlaneRowBytes + v * kVectorRows * sizeof(uint16_t);
      scales[v] = load_halves(segment.scales + at);
      if (Format::kHasMinimum) minima[v] = load_halves(segment.minima + at);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const size_t at = c * x.blocks_stride + block;
      const Floats x_scale = in_all_lanes(x.scales[at]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Ints sum = Format::Dots::total(sums[c][v]);
        if (Format::kExcess != 0) sum -= in_all_lanes(x.quant_sums[at] * Format::kExcess);
        acc[c][v] = fma_lanes(scales[v] * x_scale, floats_of(sum), acc[c][v]);
        if (Format::kHasMinimum) acc[c][v] = fma_lanes(minima[v], in_all_lanes(x.sums[at]), acc[c][v]);
      }
    }
  }
}

}  // namespace runnel::RUNNEL_KERNELS
