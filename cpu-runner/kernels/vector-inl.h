// Eight lanes of GCC's vector extensions, and the few operations that depend on the instruction set.
// Everything else in the kernels is written with + - * / on Float8.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#define RUNNEL_HAS_AVX2 1
#else
#define RUNNEL_HAS_AVX2 0
#endif
#if defined(__ARM_NEON)
#include <arm_neon.h>
#define RUNNEL_HAS_NEON 1
#else
#define RUNNEL_HAS_NEON 0
#endif
#if !RUNNEL_HAS_AVX2 && !RUNNEL_HAS_NEON
#include "runner/formats/half.h"
#endif

// GCC warns that vectors as arguments are passed differently with and without AVX. All these functions are
// inlined, so no vector is passed.
#pragma GCC diagnostic ignored "-Wpsabi"

#define RUNNEL_INLINE static inline __attribute__((always_inline))
#define RUNNEL_INLINE_MEMBER inline __attribute__((always_inline))
// Not inlined: for inner loops that need all registers.
#define RUNNEL_APART static __attribute__((noinline))

namespace runnel::RUNNEL_KERNELS {

// Bytes of a cache line.
static constexpr size_t kLineBytes = 64;
// Vector registers of the processor.
static constexpr int kNumRegisters = RUNNEL_LANES == 16 || RUNNEL_HAS_NEON ? 32 : 16;

typedef float Float8 __attribute__((vector_size(32)));
typedef int32_t Int8Lanes __attribute__((vector_size(32)));
typedef float UnalignedFloat8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t AliasingInt8Lanes __attribute__((vector_size(32), may_alias));

RUNNEL_INLINE Float8 load(const float* from) {
  return *reinterpret_cast<const UnalignedFloat8*>(from);
}
RUNNEL_INLINE void store(float* to, Float8 value) {
  *reinterpret_cast<UnalignedFloat8*>(to) = value;
}
RUNNEL_INLINE Float8 broadcast(float x) {
  return Float8{x, x, x, x, x, x, x, x};
}
RUNNEL_INLINE Int8Lanes bits_of(Float8 x) {
  return (Int8Lanes)x;
}
RUNNEL_INLINE Float8 from_bits(Int8Lanes x) {
  return (Float8)x;
}

// The halves of a vector, where registers have four lanes.
typedef float Float4 __attribute__((vector_size(16)));

RUNNEL_INLINE Float4 low_four(Float8 x) {
  return __builtin_shufflevector(x, x, 0, 1, 2, 3);
}
RUNNEL_INLINE Float4 high_four(Float8 x) {
  return __builtin_shufflevector(x, x, 4, 5, 6, 7);
}
RUNNEL_INLINE Float8 join_fours(Float4 low, Float4 high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}

RUNNEL_INLINE Float4 fma(Float4 a, Float4 b, Float4 c) {
#if RUNNEL_HAS_AVX2
  return (Float4)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#elif RUNNEL_HAS_NEON
  return vfmaq_f32(c, a, b);
#else
  Float4 sum;
  for (int lane = 0; lane < 4; ++lane) sum[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
  return sum;
#endif
}

RUNNEL_INLINE Float8 fma(Float8 a, Float8 b, Float8 c) {
#if RUNNEL_HAS_AVX2
  return (Float8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return join_fours(fma(low_four(a), low_four(b), low_four(c)),
                    fma(high_four(a), high_four(b), high_four(c)));
#endif
}

RUNNEL_INLINE Float8 to_float(Int8Lanes x) {
  return __builtin_convertvector(x, Float8);
}

#if RUNNEL_HAS_NEON
// Reads no byte behind them.
RUNNEL_INLINE int8x8_t load_four_bytes(const int8_t* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return vreinterpret_s8_s32(vdup_n_s32(four));
}
#endif

RUNNEL_INLINE Float4 load_four_bytes_as_floats(const int8_t* from) {
#if RUNNEL_HAS_NEON
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(load_four_bytes(from)))));
#else
  return Float4{static_cast<float>(from[0]), static_cast<float>(from[1]), static_cast<float>(from[2]),
                static_cast<float>(from[3])};
#endif
}

RUNNEL_INLINE Float4 load_four_halves(const uint16_t* from) {
#if RUNNEL_HAS_AVX2
  return (Float4)_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#elif RUNNEL_HAS_NEON
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
  return Float4{half_to_float(from[0]), half_to_float(from[1]), half_to_float(from[2]),
                half_to_float(from[3])};
#endif
}

RUNNEL_INLINE Float8 load_bytes(const int8_t* from) {
#if RUNNEL_HAS_AVX2
  return to_float((Int8Lanes)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
  return join_fours(load_four_bytes_as_floats(from), load_four_bytes_as_floats(from + 4));
#endif
}

RUNNEL_INLINE Float8 load_half(const uint16_t* from) {
#if RUNNEL_HAS_AVX2
  return (Float8)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  return join_fours(load_four_halves(from), load_four_halves(from + 4));
#endif
}

RUNNEL_INLINE void store_half(uint16_t* to, Float8 value) {
#if RUNNEL_HAS_AVX2
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT));
#elif RUNNEL_HAS_NEON
  vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(low_four(value))));
  vst1_u16(to + 4, vreinterpret_u16_f16(vcvt_f16_f32(high_four(value))));
#else
  for (int lane = 0; lane < 8; ++lane) to[lane] = float_to_half(value[lane]);
#endif
}

// Loads the first count lanes; the others are 0.
RUNNEL_INLINE Float8 load_part(const float* from, uint32_t count) {
  Float8 value = broadcast(0.0f);
  for (uint32_t lane = 0; lane < count; ++lane) value[lane] = from[lane];
  return value;
}

RUNNEL_INLINE void store_part(float* to, Float8 value, uint32_t count) {
  for (uint32_t lane = 0; lane < count; ++lane) to[lane] = value[lane];
}

// The last steps of a reduction: 4 + 4, 2 + 2, 1 + 1.
RUNNEL_INLINE float sum_lanes(Float4 fours) {
  const Float4 twos = fours + __builtin_shufflevector(fours, fours, 2, 3, 2, 3);
  return twos[0] + twos[1];
}
RUNNEL_INLINE float sum_lanes(Float8 x) {
  return sum_lanes(low_four(x) + high_four(x));
}

RUNNEL_INLINE Float8 max(Float8 a, Float8 b) {
  return a > b ? a : b;
}

}  // namespace runnel::RUNNEL_KERNELS
