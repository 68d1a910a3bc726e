// The sums of products of a block of quantised weights with activations. They are sums of integers, which are
// exact, so each instruction set may compute them in its own way.
#pragma once

#include "cpu-runner/kernels/dots-inl.h"
#include "cpu-runner/kernels/quant_layout-inl.h"

namespace runnel::RUNNEL_KERNELS {

#if defined(RUNNEL_PAIRS_OF_AVX2)

// Fixes the order of additions. GCC would otherwise compute all products first, more than there are registers
// for, and add them up in another order.
RUNNEL_INLINE __m256i added_here(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// Fours whose pairs fit 16 bits together.
template <typename Format>
constexpr uint32_t kFittingFours = Format::kHasSign ? 1 : 32767 / (2 * 127 * Format::kLargestWeight);

// The pairs of all eight fours of a block fit together, as with codes of 4 bits: 8 * 2 * 15 * 127 = 30,480.
template <typename Format>
concept FitsPairs = (kFittingFours<Format> >= 8 && Format::kFormat.num_sums() == 1);

// sums[c][v] = Σ q_w q. Weights are unpacked word by word, so that additions to a sum are far apart.
template <FitsPairs Format, int kVectors, int kColumns>
RUNNEL_INLINE void add_up_block(const WeightSegment& segment, uint32_t block, const ReadyBlock* x,
                                Ints (&sums)[kColumns][kVectors]) {
  static_assert(Format::kParts == 2 && Format::kHighBits == 0);
  const std::byte* words = segment.weights + block * Format::kBlockBytes;
  __m256i all[kColumns][kVectors] = {};
#pragma GCC unroll 4
  for (uint32_t w = 0; w < Format::kSumWords; ++w) {
    Ints low[kVectors];
    Ints high[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Ints word = load_ints(words + w * kWordRowBytes + v * sizeof(Ints));
      low[v] = Format::bytes(word, Ints{}, 0);
      high[v] = Format::bytes(word, Ints{}, 1);
    }
#pragma GCC unroll 12
    for (int c = 0; c < kColumns; ++c) {
      const Ints x_low = four_in_all_lanes(x[c].quants + 4 * four_of<Format::kFormat>(w, 0));
      const Ints x_high = four_in_all_lanes(x[c].quants + 4 * four_of<Format::kFormat>(w, 1));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m256i pairs =
            _mm256_add_epi16(Format::Dots::pairs(low[v], x_low), Format::Dots::pairs(high[v], x_high));
        all[c][v] = added_here(_mm256_add_epi16(all[c][v], pairs));
      }
    }
  }
#pragma GCC unroll 12
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[c][v] = (Ints)_mm256_madd_epi16(all[c][v], _mm256_set1_epi16(1));
  }
}

// For other formats. This many fours of weights are unpacked, then multiplied with all columns. For each
// column their pairs are added up in 16 bits, as far as they fit. Widening them to 32 bits multiplies by the
// sub-scale if there are two, and by 1 otherwise. So only the sums are kept from one group to the next.
constexpr uint32_t kGroupFours = 4;

template <typename Format>
struct PairSums {
  RUNNEL_INLINE __m256i added_to(__m256i sum, const Ints (&weights)[kGroupFours],
                                 const Ints (&x)[kGroupFours], __m256i factors) {
    constexpr uint32_t kTogether = kFittingFours<Format> >= 4 ? 4 : kFittingFours<Format> >= 2 ? 2 : 1;
#pragma GCC unroll 4
    for (uint32_t first = 0; first < kGroupFours; first += kTogether) {
      __m256i pairs = Format::Dots::pairs(weights[first], x[first]);
#pragma GCC unroll 4
      for (uint32_t i = 1; i < kTogether; ++i)
        pairs = added_here(_mm256_add_epi16(pairs, Format::Dots::pairs(weights[first + i], x[first + i])));
      sum = added_here(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, factors)));
    }
    return sum;
  }
};

// For each lane, one of its two numbers of 16 bits in the place of both.
alignas(32) static constexpr uint8_t kOneOfPairs[2][32] = {
    {0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13},
    {2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15,
     2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15}};
RUNNEL_INLINE __m256i one_of_pairs(Ints pairs, uint32_t half) {
  return _mm256_shuffle_epi8((__m256i)pairs, *reinterpret_cast<const __m256i*>(kOneOfPairs[half]));
}

// sums[c][v] = Σ q_w q. It is too large by kExcess times the sum of q, or times the sums of q times
// sub-scales.
template <typename Format, int kVectors, int kColumns>
RUNNEL_INLINE void add_up_block(const WeightSegment& segment, uint32_t block, const ReadyBlock* x,
                                Ints (&sums)[kColumns][kVectors]) {
  constexpr uint32_t kGroupWords = kGroupFours / Format::kParts;
  constexpr uint32_t kGroups = kBlockColumns / 4 / kGroupFours;
  constexpr bool kHasTwoSums = Format::kFormat.num_sums() == 2;
  static_assert(!kHasTwoSums || kGroupWords == Format::kSumWords);
  const std::byte* words = segment.weights + block * Format::kBlockBytes;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i all[kColumns][kVectors] = {};
  Ints high[kVectors] = {};
#pragma GCC unroll 1
  for (uint32_t group = 0; group < kGroups; ++group) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* from = words + v * sizeof(Ints);
      if (group == 0 || kHasTwoSums) high[v] = Format::high_word(from, kHasTwoSums ? group : 0);
      Ints weights[kGroupFours];
#pragma GCC unroll 4
      for (uint32_t i = 0; i < kGroupFours; ++i) {
        const uint32_t w = i / Format::kParts;
        const Ints low = load_ints(from + (group * kGroupWords + w) * kWordRowBytes);
        weights[i] = Format::bytes(low, high[v], i % Format::kParts, w);
      }
      if (Format::kHighBits > 0) high[v] >>= static_cast<int32_t>(kGroupWords * Format::kHighBits);
      const __m256i factors =
          kHasTwoSums ? one_of_pairs(Format::sub_scale_pairs(segment, block, v), group) : ones;
#pragma GCC unroll 12
      for (int c = 0; c < kColumns; ++c) {
        Ints fours[kGroupFours];
#pragma GCC unroll 4
        for (uint32_t i = 0; i < kGroupFours; ++i) {
          const uint32_t four =
              four_of<Format::kFormat>(group * kGroupWords + i / Format::kParts, i % Format::kParts);
          fours[i] = four_in_all_lanes(x[c].quants + 4 * four);
        }
        all[c][v] = PairSums<Format>::added_to(all[c][v], weights, fours, factors);
      }
    }
  }
#pragma GCC unroll 12
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[c][v] = (Ints)all[c][v];
  }
}

#else

// sums[c][v] = Σ q_w q over the weights of a block that share a sum: all of them, or half of them.
template <typename Format, int kVectors, int kColumns>
RUNNEL_INLINE void add_up(const std::byte* words, uint32_t half, const ReadyBlock* x,
                          Ints (&sums)[kColumns][kVectors]) {
  Ints high[kVectors] = {};
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) high[v] = Format::high_word(words + v * sizeof(Ints), half);
    // Unrolled, GCC would load the values of later words early and spill the sums.
#pragma GCC unroll 1
  for (uint32_t i = 0; i < Format::kSumWords; ++i) {
    const uint32_t w = half * Format::kSumWords + i;
#pragma GCC unroll 4
    for (uint32_t p = 0; p < Format::kParts; ++p) {
      Ints weights[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        weights[v] = Format::bytes(load_ints(words + w * kWordRowBytes + v * sizeof(Ints)), high[v], p);
#pragma GCC unroll 12
      for (int c = 0; c < kColumns; ++c) {
        const Ints four = four_in_all_lanes(x[c].quants + 4 * four_of<Format::kFormat>(w, p));
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

#if defined(RUNNEL_MATRICES_OF_NEON)
// The same for columns in pairs, by products of matrices: two rows of eight weights times two columns.
template <typename Format, int kVectors, int kColumns>
requires(kColumns % 2 == 0) RUNNEL_INLINE void add_up(const std::byte* words, uint32_t half,
                                                      const ReadyBlock* x, Ints (&sums)[kColumns][kVectors]) {
  constexpr uint32_t kFours = Format::kFormat.sum_fours();
  Ints products[kColumns][kVectors] = {};  // of a pair of columns: rows 0 and 1, then rows 2 and 3
#pragma GCC unroll 1
  for (uint32_t four = half * kFours; four < (half + 1) * kFours; four += 2) {
    Ints weights[2][kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Ints first = Format::bytes_of(words + v * sizeof(Ints), four);
      const Ints second = Format::bytes_of(words + v * sizeof(Ints), four + 1);
      weights[0][v] = vzip1q_s32(first, second);
      weights[1][v] = vzip2q_s32(first, second);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; c += 2) {
      const int8x16_t pair =
          vcombine_s8(vld1_s8(x[c].quants + 4 * four), vld1_s8(x[c + 1].quants + 4 * four));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        products[c][v] = vmmlaq_s32(products[c][v], (int8x16_t)weights[0][v], pair);
        products[c + 1][v] = vmmlaq_s32(products[c + 1][v], (int8x16_t)weights[1][v], pair);
      }
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; c += 2) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[c][v] += vuzp1q_s32(products[c][v], products[c + 1][v]);
      sums[c + 1][v] += vuzp2q_s32(products[c][v], products[c + 1][v]);
    }
  }
}
#endif

// sums[c][v] = Σ q_w q. It is too large by kExcess times the sum of q, or times the sums of q times
// sub-scales.
template <typename Format, int kVectors, int kColumns>
RUNNEL_INLINE void add_up_block(const WeightSegment& segment, uint32_t block, const ReadyBlock* x,
                                Ints (&sums)[kColumns][kVectors]) {
  const std::byte* words = segment.weights + block * Format::kBlockBytes;
  if constexpr (Format::kFormat.num_sums() == 1) {
    add_up<Format>(words, 0, x, sums);
    return;
  }
#pragma GCC unroll 2
  for (uint32_t half = 0; half < 2; ++half) {
    Ints sums_of_half[kColumns][kVectors] = {};
    add_up<Format>(words, half, x, sums_of_half);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Ints sub_scales = Format::sub_scales_of(segment, block, v, half);
#pragma GCC unroll 12
      for (int c = 0; c < kColumns; ++c) sums[c][v] += sums_of_half[c][v] * sub_scales;
    }
  }
}

#endif

}  // namespace runnel::RUNNEL_KERNELS
