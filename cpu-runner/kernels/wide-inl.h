// Vectors of RUNNEL_LANES lanes, for loops whose lanes are independent: the number of lanes changes no bit of
// the results.
#pragma once

#include "cpu-runner/kernels/vector-inl.h"

namespace runnel::RUNNEL_KERNELS {

static constexpr uint32_t kWideLanes = RUNNEL_LANES;

#if RUNNEL_LANES == 8

using Wide = Float8;
using WideInt = Int8Lanes;
using UnalignedWide = UnalignedFloat8;

RUNNEL_INLINE Wide broadcast_wide(float x) {
  return broadcast(x);
}
RUNNEL_INLINE Wide load_wide_half(const uint16_t* from) {
  return load_half(from);
}
RUNNEL_INLINE Wide load_wide_bytes(const int8_t* from) {
  return load_bytes(from);
}
RUNNEL_INLINE bool any_greater(Wide a, Wide b) {
#if RUNNEL_HAS_AVX2
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)) != 0;
#else
  bool any = false;
  for (uint32_t lane = 0; lane < kWideLanes; ++lane) any |= a[lane] > b[lane];
  return any;
#endif
}
static constexpr WideInt kLaneNumbers = {0, 1, 2, 3, 4, 5, 6, 7};

#elif RUNNEL_LANES == 4

using Wide = Float4;
typedef int32_t WideInt __attribute__((vector_size(16)));
typedef float UnalignedWide __attribute__((vector_size(16), aligned(4), may_alias));

RUNNEL_INLINE WideInt bits_of(Wide x) {
  return (WideInt)x;
}
RUNNEL_INLINE Wide from_bits(WideInt x) {
  return (Wide)x;
}
RUNNEL_INLINE Wide broadcast_wide(float x) {
  return Wide{x, x, x, x};
}
RUNNEL_INLINE Wide load_wide_half(const uint16_t* from) {
  return load_four_halves(from);
}
RUNNEL_INLINE Wide load_wide_bytes(const int8_t* from) {
  return load_four_bytes_as_floats(from);
}
RUNNEL_INLINE bool any_greater(Wide a, Wide b) {
  const WideInt mask = a > b;
  return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
}
static constexpr WideInt kLaneNumbers = {0, 1, 2, 3};

#else

typedef float Wide __attribute__((vector_size(64)));
typedef int32_t WideInt __attribute__((vector_size(64)));
typedef float UnalignedWide __attribute__((vector_size(64), aligned(4), may_alias));

RUNNEL_INLINE WideInt bits_of(Wide x) {
  return (WideInt)x;
}
RUNNEL_INLINE Wide from_bits(WideInt x) {
  return (Wide)x;
}

RUNNEL_INLINE Float8 low_half(Wide x) {
  return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
}
RUNNEL_INLINE Float8 high_half(Wide x) {
  return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
}
RUNNEL_INLINE Wide broadcast_wide(float x) {
  return Wide{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

#ifdef __AVX512F__
// Intrinsics with a mask of all lanes. GCC 12 warns about those without one, whose unused operand is
// undefined.
static constexpr __mmask16 kAllLanes = 0xffff;

RUNNEL_INLINE Wide fma(Wide a, Wide b, Wide c) {
  return (Wide)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
RUNNEL_INLINE Wide load_wide_half(const uint16_t* from) {
  return (Wide)_mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
RUNNEL_INLINE Wide load_wide_bytes(const int8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return (Wide)_mm512_maskz_cvtepi32_ps(kAllLanes, _mm512_maskz_cvtepi8_epi32(kAllLanes, bytes));
}
RUNNEL_INLINE bool any_greater(Wide a, Wide b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ) != 0;
}
#else
RUNNEL_INLINE Wide join(Float8 low, Float8 high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
RUNNEL_INLINE Wide fma(Wide a, Wide b, Wide c) {
  return join(fma(low_half(a), low_half(b), low_half(c)), fma(high_half(a), high_half(b), high_half(c)));
}
RUNNEL_INLINE Wide load_wide_half(const uint16_t* from) {
  return join(load_half(from), load_half(from + 8));
}
RUNNEL_INLINE Wide load_wide_bytes(const int8_t* from) {
  return join(load_bytes(from), load_bytes(from + 8));
}
RUNNEL_INLINE bool any_greater(Wide a, Wide b) {
  bool any = false;
  for (uint32_t lane = 0; lane < kWideLanes; ++lane) any |= a[lane] > b[lane];
  return any;
}
#endif
static constexpr WideInt kLaneNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#endif

RUNNEL_INLINE Wide load_wide(const float* from) {
  return *reinterpret_cast<const UnalignedWide*>(from);
}
RUNNEL_INLINE void store_wide(float* to, Wide value) {
  *reinterpret_cast<UnalignedWide*>(to) = value;
}

}  // namespace runnel::RUNNEL_KERNELS
