// Integers in products: in each lane the sum of 32 products of a weight and an activation, four at a time.
// The sum is exact, so each instruction set may compute it in its own way.
#pragma once

#include "cpu-runner/kernels/segment-inl.h"

#if RUNNEL_HAS_AVX512 && defined(__AVX512VNNI__)
#define RUNNEL_DOT4_OF_AVX512 1
#elif RUNNEL_LANES == 8 && defined(__AVXVNNI__)
#define RUNNEL_DOT4_OF_AVX 1
#elif RUNNEL_LANES == 8 && RUNNEL_HAS_AVX2
#define RUNNEL_PAIRS_OF_AVX2 1
#elif RUNNEL_IS_NEON && defined(__ARM_FEATURE_DOTPROD)
#define RUNNEL_DOT4_OF_NEON 1
#endif
#if RUNNEL_IS_NEON && defined(__ARM_FEATURE_MATMUL_INT8)
#define RUNNEL_MATRICES_OF_NEON 1
#endif

namespace runnel::RUNNEL_KERNELS {

#if defined(RUNNEL_PAIRS_OF_AVX2)

// Sums of twelve columns, of one vector of rows each, take 12 of 16 registers. All columns share the cost of
// unpacking; their sums of floats are kept in memory from block to block.
using DotWidths = Widths<12, 8, 4, 3, 2, 1>;

// AVX2 has an instruction for pairs, u8[0] * s8[0] + u8[1] * s8[1], which saturates at 16 bits, and one that
// adds two numbers of 16 bits, each multiplied by another.
RUNNEL_INLINE __m256i pairs_of(Ints u8, Ints s8) {
  return _mm256_maddubs_epi16((__m256i)u8, (__m256i)s8);
}

// Weights of 0 to 127: a pair is at most 2 * 127 * 127 = 32,258.
struct DotsUnsigned {
  static constexpr int32_t kExcess = 0;
  RUNNEL_INLINE Ints weights(Ints bytes) { return bytes; }
  RUNNEL_INLINE __m256i pairs(Ints weights, Ints x) { return pairs_of(weights, x); }
};

// Weights of -128 to 127. Their signs are moved to the activations: a pair is at most 2 * 128 * 127 = 32,512.
struct DotsSigned {
  static constexpr int32_t kExcess = 0;
  RUNNEL_INLINE Ints weights(Ints bytes) { return bytes; }
  RUNNEL_INLINE __m256i pairs(Ints weights, Ints x) {
    const Ints signed_x = (Ints)_mm256_sign_epi8((__m256i)x, (__m256i)weights);
    return pairs_of((Ints)_mm256_abs_epi8((__m256i)weights), signed_x);
  }
};

#else

// Six columns times two vectors of 16 rows take 24 of 32 registers; times one vector of 8 rows, 12 of 16.
// Four columns times four vectors of 4 rows take 16 of 32.
#if RUNNEL_HAS_AVX2
using DotWidths = Widths<6, 4, 3, 2, 1>;
#elif defined(RUNNEL_DOT4_OF_NEON)
using DotWidths = Widths<4, 3, 2, 1>;
#else
using DotWidths = Widths<6, 1>;
#endif

// acc + the sum of the four products u8[i] * s8[i]. NEON multiplies numbers with signs only.
RUNNEL_INLINE Ints dot4(Ints acc, Ints u8, Ints s8) {
#if defined(RUNNEL_DOT4_OF_AVX512)
  return (Ints)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)u8, (__m512i)s8);
#elif defined(RUNNEL_DOT4_OF_AVX)
  return (Ints)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)u8, (__m256i)s8);
#elif defined(RUNNEL_DOT4_OF_NEON)
  return vdotq_s32(acc, (int8x16_t)u8, (int8x16_t)s8);
#else
  // The second and fourth byte of each lane, then the first and third, in 16 bits: 255 * 127 fits.
  typedef int16_t Shorts __attribute__((vector_size(4 * RUNNEL_LANES)));
  typedef uint16_t UnsignedShorts __attribute__((vector_size(4 * RUNNEL_LANES)));
  const Ints odd = (Ints)((Shorts)((UnsignedShorts)u8 >> 8) * ((Shorts)s8 >> 8));
  const Ints even = (Ints)((Shorts)((UnsignedShorts)u8 & 255) * ((Shorts)((UnsignedShorts)s8 << 8) >> 8));
  return acc + (odd >> 16) + ((odd << 16) >> 16) + (even >> 16) + ((even << 16) >> 16);
#endif
}

struct DotsUnsigned {
  static constexpr int32_t kExcess = 0;
  RUNNEL_INLINE Ints weights(Ints bytes) { return bytes; }
  RUNNEL_INLINE void add(Ints& sum, Ints weights, Ints x) { sum = dot4(sum, weights, x); }
};

#if defined(RUNNEL_DOT4_OF_NEON)
using DotsSigned = DotsUnsigned;
#else
// Weights of -128 to 127, with 128 added, so that they have no sign.
struct DotsSigned {
  static constexpr int32_t kExcess = 128;
  RUNNEL_INLINE Ints weights(Ints bytes) { return bytes ^ static_cast<int32_t>(0x80808080); }
  RUNNEL_INLINE void add(Ints& sum, Ints weights, Ints x) { sum = dot4(sum, weights, x); }
};
#endif

#endif

}  // namespace runnel::RUNNEL_KERNELS
