// A vector whose lanes are rows of a tile, as wide as the registers of the instruction set (RUNNEL_LANES: 4,
// 8 or 16), and the few operations on it that depend on the instruction set. Without that instruction set,
// GCC emulates the same lanes, so any width can be computed, and tested, anywhere.
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
// Registers of four lanes.
#if RUNNEL_HAS_NEON && RUNNEL_LANES == 4
#define RUNNEL_IS_NEON 1
#else
#define RUNNEL_IS_NEON 0
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
// A difference, since x + 0 would turn minus 0 into 0.
RUNNEL_INLINE Floats in_all_lanes(float x) {
  return x - Floats{};
}
RUNNEL_INLINE Ints in_all_lanes(int32_t x) {
  return x - Ints{};
}
RUNNEL_INLINE Ints lanes_of(uint32_t x) {
  return in_all_lanes(static_cast<int32_t>(x));
}
// Four bytes of an activation, in all lanes.
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

// Gives b where a is not a number. For an expression with > and <, GCC compares and then blends.
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
#elif RUNNEL_LANES == 4
  return fma(a, b, c);
#else
  Floats sum;
  for (uint32_t lane = 0; lane < kVectorRows; ++lane) sum[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
  return sum;
#endif
}

RUNNEL_INLINE Floats load_halves(const std::byte* from) {
#if RUNNEL_HAS_AVX512
  return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif RUNNEL_LANES == 4
  return load_four_halves(reinterpret_cast<const uint16_t*>(from));
#else
  Floats value;
  auto* parts = reinterpret_cast<Float8*>(&value);
  for (uint32_t i = 0; i < kVectorRows / 8; ++i)
    parts[i] = load_half(reinterpret_cast<const uint16_t*>(from) + i * 8);
  return value;
#endif
}

// Loads the upper halves of floats, which are bfloat16.
RUNNEL_INLINE Floats load_upper_halves(const std::byte* from) {
#if RUNNEL_HAS_AVX512
  const Ints bits = (Ints)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  const Ints bits = (Ints)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif RUNNEL_IS_NEON
  const Ints bits = (Ints)vmovl_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from)));
#else
  Ints bits;
  for (uint32_t lane = 0; lane < kVectorRows; ++lane)
    bits[lane] = reinterpret_cast<const uint16_t*>(from)[lane];
#endif
  return (Floats)(bits << 16);
}

// Loads a signed byte for each lane.
RUNNEL_INLINE Ints load_byte_lanes(const std::byte* from) {
#if RUNNEL_HAS_AVX512
  return (Ints)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  return (Ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#elif RUNNEL_IS_NEON
  return vmovl_s16(vget_low_s16(vmovl_s8(load_four_bytes(reinterpret_cast<const int8_t*>(from)))));
#else
  Ints value;
  for (uint32_t lane = 0; lane < kVectorRows; ++lane)
    value[lane] = static_cast<int8_t>(static_cast<uint8_t>(from[lane]));
  return value;
#endif
}

// Loads two signed bytes for each lane, and widens each to 16 bits.
RUNNEL_INLINE Ints load_byte_pairs(const std::byte* from) {
#if RUNNEL_HAS_AVX512
  return (Ints)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  return (Ints)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif RUNNEL_IS_NEON
  return (Ints)vmovl_s8(vld1_s8(reinterpret_cast<const int8_t*>(from)));
#else
  Ints value;
  for (uint32_t lane = 0; lane < kVectorRows; ++lane) {
    const int32_t first = static_cast<int8_t>(static_cast<uint8_t>(from[2 * lane]));
    const int32_t second = static_cast<int8_t>(static_cast<uint8_t>(from[2 * lane + 1]));
    value[lane] = (first & 0xffff) | (second << 16);
  }
  return value;
#endif
}

// A table lookup: each byte i of x is replaced by entry i of the table. The bytes of x are below 16.
struct ByteTable {
  alignas(16) uint8_t bytes[16];
};
RUNNEL_INLINE Ints look_up(const ByteTable& table, Ints x) {
#if RUNNEL_HAS_AVX512
  const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(table.bytes));
  return (Ints)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), (__m512i)x);
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(table.bytes));
  return (Ints)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), (__m256i)x);
#elif RUNNEL_IS_NEON
  return (Ints)vqtbl1q_u8(vld1q_u8(table.bytes), (uint8x16_t)x);
#else
  Ints found;
  const auto* from = reinterpret_cast<const uint8_t*>(&x);
  auto* to = reinterpret_cast<uint8_t*>(&found);
  for (uint32_t i = 0; i < sizeof(Ints); ++i) to[i] = table.bytes[from[i]];
  return found;
#endif
}

// Multiplies both numbers of 16 bits in each lane by factor.
RUNNEL_INLINE Ints times(Ints pairs, int16_t factor) {
  typedef int16_t Shorts __attribute__((vector_size(4 * RUNNEL_LANES)));
  return (Ints)((Shorts)pairs * factor);
}

// a[0] b[0] + a[1] b[1], where each lane has two numbers of 16 bits.
RUNNEL_INLINE Ints dot_pairs(Ints a, Ints b) {
#if RUNNEL_HAS_AVX512
  return (Ints)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif RUNNEL_HAS_AVX2 && RUNNEL_LANES == 8
  return (Ints)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif RUNNEL_IS_NEON
  const int32x4_t low = vmull_s16(vget_low_s16((int16x8_t)a), vget_low_s16((int16x8_t)b));
  return vpaddq_s32(low, vmull_high_s16((int16x8_t)a, (int16x8_t)b));
#else
  return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

}  // namespace runnel::RUNNEL_KERNELS
