// Makes blocks of 32 floats ready for products: signed bytes with a scale (docs/numerics.md).
#pragma once

#include "cpu-runner/kernels/lanes-inl.h"
#include "cpu-runner/kernels/product.h"
#include "cpu-runner/kernels/wide-inl.h"

namespace runnel::RUNNEL_KERNELS {

constexpr uint32_t kBlockVectors = kBlockColumns / kVectorRows;

// Blocks that are made ready together, since reductions across lanes cost as much for four vectors as for
// one.
constexpr uint32_t kBlocksTogether = 4;

typedef int32_t Int4 __attribute__((vector_size(16)));

// Pairs of lanes of two vectors in turn, within each four lanes of them.
static constexpr Ints kFirstPairs =
    (kLaneNumbers & ~3) + ((kLaneNumbers & 3) >> 1) + (kLaneNumbers & 1) * RUNNEL_LANES;
static constexpr Ints kSecondPairs = kFirstPairs + 2;
static constexpr Ints kFirstHalves =
    (kLaneNumbers & ~3) + (kLaneNumbers & 1) + ((kLaneNumbers & 2) >> 1) * RUNNEL_LANES;
static constexpr Ints kSecondHalves = kFirstHalves + 2;

// Lane i is the reduction of vector i by op, which takes and gives vectors, and whose order does not matter.
template <typename Op>
RUNNEL_INLINE Int4 reduce_each(const Ints (&x)[kBlocksTogether], const Op& op) {
  const auto in_pairs = [&](Ints a, Ints b) __attribute__((always_inline)) {
    return op(__builtin_shuffle(a, b, kFirstPairs), __builtin_shuffle(a, b, kSecondPairs));
  };
  const Ints low = in_pairs(x[0], x[1]);
  const Ints high = in_pairs(x[2], x[3]);
  const Ints fours =
      op(__builtin_shuffle(low, high, kFirstHalves), __builtin_shuffle(low, high, kSecondHalves));
#if RUNNEL_LANES == 4
  return fours;
#else
#if RUNNEL_LANES == 16
  const Int8Lanes eight = op(low_lanes(fours), high_lanes(fours));
#else
  const Int8Lanes eight = fours;
#endif
  return op(__builtin_shufflevector(eight, eight, 0, 1, 2, 3),
            __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
#endif
}

struct Larger {
  template <typename Vector>
  RUNNEL_INLINE_MEMBER Vector operator()(Vector a, Vector b) const {
    return a > b ? a : b;
  }
};
struct Added {
  template <typename Vector>
  RUNNEL_INLINE_MEMBER Vector operator()(Vector a, Vector b) const {
    return a + b;
  }
};

// |x| in lanes, compared as integers: there a NaN is larger than infinity, and is not lost.
RUNNEL_INLINE Ints largest_magnitudes(const float* values) {
  Ints largest = {};
#pragma GCC unroll 8
  for (uint32_t v = 0; v < kBlockVectors; ++v)
    largest = Larger{}(largest, (Ints)load_floats(values + v * kVectorRows) & 0x7fffffff);
  return largest;
}

// Rounds x to the nearest integer, ties to even, as exp of exp-inl.h does, and limits it to -127 to 127.
RUNNEL_INLINE Ints to_quants(Floats x) {
  const Floats shift = in_all_lanes(0x1.8p+23f);
  const Floats limit = in_all_lanes(127.0f);
  return (Ints)(min_lanes(max_lanes(x, -limit), limit) + shift) - (Ints)shift;
}

RUNNEL_INLINE void store_bytes(int8_t* to, const Ints (&quants)[kBlockVectors]) {
#if RUNNEL_HAS_AVX512
  for (uint32_t v = 0; v < kBlockVectors; ++v)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + v * kVectorRows),
                     _mm512_cvtepi32_epi8((__m512i)quants[v]));
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  // Packing works in each half of a vector, and leaves the fours of bytes in the order 0 2 4 6 1 3 5 7.
  const __m256i low = _mm256_packs_epi32((__m256i)quants[0], (__m256i)quants[1]);
  const __m256i high = _mm256_packs_epi32((__m256i)quants[2], (__m256i)quants[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
#elif RUNNEL_IS_NEON
  for (uint32_t v = 0; v < kBlockVectors; v += 4) {
    const int16x8_t low = vcombine_s16(vmovn_s32(quants[v]), vmovn_s32(quants[v + 1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(quants[v + 2]), vmovn_s32(quants[v + 3]));
    vst1q_s8(to + v * kVectorRows, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }
#else
  for (uint32_t i = 0; i < kBlockColumns; ++i)
    to[i] = static_cast<int8_t>(quants[i / kVectorRows][i % kVectorRows]);
#endif
}

// Stores the scales of kCount blocks, which are out_stride apart, and their sums.
template <uint32_t kCount>
RUNNEL_INLINE void store_sums(Float4 scales, Int4 first_sums, Int4 second_sums, ReadyBlock* out,
                              size_t out_stride) {
  const Int4 quant_sums = first_sums + second_sums;
  const Int4 sums = (Int4)(scales * __builtin_convertvector(quant_sums, Float4));
  const Int4 half_sums = (first_sums & 0xffff) | (second_sums << 16);
  static_assert(offsetof(ReadyBlock, half_sums) == offsetof(ReadyBlock, scale) + 12);
  const Int4 scales_and_sums[2] = {__builtin_shufflevector((Int4)scales, sums, 0, 4, 1, 5),
                                   __builtin_shufflevector((Int4)scales, sums, 2, 6, 3, 7)};
  const Int4 integers[2] = {__builtin_shufflevector(quant_sums, half_sums, 0, 4, 1, 5),
                            __builtin_shufflevector(quant_sums, half_sums, 2, 6, 3, 7)};
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kCount; ++i) {
    const Int4 a = scales_and_sums[i / 2];
    const Int4 b = integers[i / 2];
    const Int4 fields =
        i % 2 == 0 ? __builtin_shufflevector(a, b, 0, 1, 4, 5) : __builtin_shufflevector(a, b, 2, 3, 6, 7);
    __builtin_memcpy(&out[i * out_stride].scale, &fields, sizeof fields);
  }
}

template <uint32_t kCount>
RUNNEL_INLINE void make_blocks_ready(const float* values, size_t stride, ReadyBlock* out, size_t out_stride) {
  static_assert(kCount <= kBlocksTogether);
  Ints magnitudes[kBlocksTogether] = {};
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kCount; ++i) magnitudes[i] = largest_magnitudes(values + i * stride);
  const Float4 scales = (Float4)reduce_each(magnitudes, Larger{}) / 127.0f;
  // Without a usable scale all quants are 0.
  const Int4 are_usable = (scales > 0.0f) & (scales <= __FLT_MAX__);
  Ints sums[2][kBlocksTogether] = {};  // of the first 16 quants of each block, and of the others
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kCount; ++i) {
    const Floats scale = in_all_lanes(scales[i]);
    const Ints is_usable = in_all_lanes(are_usable[i]);
    Ints quants[kBlockVectors];
#pragma GCC unroll 8
    for (uint32_t v = 0; v < kBlockVectors; ++v)
      quants[v] = to_quants(load_floats(values + i * stride + v * kVectorRows) / scale) & is_usable;
    store_bytes(out[i * out_stride].quants, quants);
#pragma GCC unroll 2
    for (uint32_t half = 0; half < 2; ++half) {
      constexpr uint32_t kHalf = kBlockVectors / 2;
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kHalf; ++v) sums[half][i] += quants[half * kHalf + v];
    }
  }
  store_sums<kCount>(scales, reduce_each(sums[0], Added{}), reduce_each(sums[1], Added{}), out, out_stride);
}

static void make_ready_i8(const float* values, size_t stride, uint32_t count, ReadyBlock* out,
                          size_t out_stride) {
  uint32_t done = 0;
  for (; done + kBlocksTogether <= count; done += kBlocksTogether)
    make_blocks_ready<kBlocksTogether>(values + done * stride, stride, out + done * out_stride, out_stride);
  for (; done < count; ++done)
    make_blocks_ready<1>(values + done * stride, stride, out + done * out_stride, out_stride);
}

// For products with the floats themselves: computes the sums alone.
static void make_ready_f32(const float* values, size_t stride, uint32_t count, ReadyBlock* out,
                           size_t out_stride) {
  for (uint32_t block = 0; block < count; ++block) {
    float sum = 0.0f;
    for (uint32_t i = 0; i < kBlockColumns; ++i) sum += values[block * stride + i];
    out[block * out_stride].sum = sum;
  }
}

}  // namespace runnel::RUNNEL_KERNELS
