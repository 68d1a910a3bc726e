// A vector whose lanes are rows of a tile, as wide as the instruction set has it (RUNNEL_LANES: 8 or
// 16), and the few operations on it that need to know the instruction set. Without that set, GCC makes the
// same lanes of what there is: any width can be computed, and tested, anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu-runner/kernels/product.h"
#include "cpu-runner/kernels/vector-inl.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && RUNNEL_LANES == 16
#define RUNNEL_HAS_AVX512 1
#else
#define RUNNEL_HAS_AVX512 0
#endif

namespace runnel::RUNNEL_KERNELS {

constexpr uint32_t kVectorRows = RUNNEL_LANES;

typedef float Floats __attribute__((vector_size(4 * RUNNEL_LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * RUNNEL_LANES)));
typedef float AliasingFloats __attribute__((vector_size(4 * RUNNEL_LANES), aligned(4), may_alias));
typedef int32_t AliasingInts __attribute__((vector_size(4 * RUNNEL_LANES), may_alias));

RUNNEL_INLINE Floats load_floats(const float* from) {
  return *reinterpret_cast<const AliasingFloats*>(from);
}
RUNNEL_INLINE void store_floats(float* to, Floats value) {
  *reinterpret_cast<AliasingFloats*>(to) = value;
}
RUNNEL_INLINE Ints load_ints(const std::byte* from) {
  return *reinterpret_cast<const AliasingInts*>(from);
}
// A difference, since the sum of 0 and minus 0 is 0.
RUNNEL_INLINE Floats in_all_lanes(float x) {
  return x - Floats{};
}
RUNNEL_INLINE Ints in_all_lanes(int32_t x) {
  return x - Ints{};
}
// Four bytes of an activation.
RUNNEL_INLINE Ints four_in_all_lanes(const int8_t* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return in_all_lanes(four);
}
RUNNEL_INLINE Floats floats_of(Ints x) {
  return __builtin_convertvector(x, Floats);
}

#if RUNNEL_LANES == 16
RUNNEL_INLINE Int8Lanes low_lanes(Ints x) {
  return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
}
RUNNEL_INLINE Int8Lanes high_lanes(Ints x) {
  return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
}
#endif

// b where a is not a number. Written with > and <, GCC compares and then blends.
RUNNEL_INLINE Floats max_lanes(Floats a, Floats b) {
#if RUNNEL_HAS_AVX512
  return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}
RUNNEL_INLINE Floats min_lanes(Floats a, Floats b) {
#if RUNNEL_HAS_AVX512
  return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  return (Floats)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return a < b ? a : b;
#endif
}

RUNNEL_INLINE Floats fma_lanes(Floats a, Floats b, Floats c) {
#if RUNNEL_HAS_AVX512
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  Floats sum;
  for (uint32_t lane = 0; lane < kVectorRows; ++lane) sum[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
  return sum;
#endif
}

RUNNEL_INLINE Floats load_halves(const std::byte* from) {
#if RUNNEL_HAS_AVX512
  return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#else
  Floats value;
  auto* parts = reinterpret_cast<Float8*>(&value);
  for (uint32_t i = 0; i < kVectorRows / 8; ++i)
    parts[i] = load_half(reinterpret_cast<const uint16_t*>(from) + i * 8);
  return value;
#endif
}

}  // namespace runnel::RUNNEL_KERNELS
