// Makes a row of floats ready for products: each block of 32 as signed bytes with a scale (docs/numerics.md).
#pragma once

#include "cpu-runner/kernels/lanes-inl.h"
#include "cpu-runner/kernels/product.h"

namespace runnel::RUNNEL_KERNELS {

constexpr uint32_t kBlockVectors = kBlockColumns / kVectorRows;

RUNNEL_INLINE Int8Lanes larger(Int8Lanes a, Int8Lanes b) {
  return a > b ? a : b;
}

// The largest of eight lanes, in all lanes.
RUNNEL_INLINE Int8Lanes largest_lane(Int8Lanes x) {
  x = larger(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
  x = larger(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
  return larger(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
}

RUNNEL_INLINE int32_t sum_of_lanes(Int8Lanes x) {
  x = x + __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  x = x + __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
  return x[0] + x[1];
}

// max |x|, compared as integers: there a NaN is larger than infinity, and is not lost.
RUNNEL_INLINE float largest_magnitude(const Floats (&x)[kBlockVectors]) {
  Ints largest = (Ints)x[0] & 0x7fffffff;
  for (uint32_t v = 1; v < kBlockVectors; ++v) {
    const Ints magnitudes = (Ints)x[v] & 0x7fffffff;
    largest = magnitudes > largest ? magnitudes : largest;
  }
#if RUNNEL_LANES == 16
  return from_bits(largest_lane(larger(low_lanes(largest), high_lanes(largest))))[0];
#else
  return from_bits(largest_lane(largest))[0];
#endif
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
#else
  for (uint32_t i = 0; i < kBlockColumns; ++i)
    to[i] = static_cast<int8_t>(quants[i / kVectorRows][i % kVectorRows]);
#endif
}

// The sum of the first 16 quants of a block (half 0), or of the others.
RUNNEL_INLINE int32_t sum_of_half(const Ints (&quants)[kBlockVectors], uint32_t half) {
#if RUNNEL_LANES == 16
  return sum_of_lanes(low_lanes(quants[half]) + high_lanes(quants[half]));
#else
  return sum_of_lanes(quants[2 * half] + quants[2 * half + 1]);
#endif
}

RUNNEL_INLINE void make_block_ready(const float* values, ReadyBlock& out) {
  Floats x[kBlockVectors];
  Ints quants[kBlockVectors] = {};
  for (uint32_t v = 0; v < kBlockVectors; ++v) x[v] = load_floats(values + v * kVectorRows);
  const float scale = largest_magnitude(x) / 127.0f;
  if (scale > 0.0f && scale <= __FLT_MAX__) {
    for (uint32_t v = 0; v < kBlockVectors; ++v) quants[v] = to_quants(x[v] / in_all_lanes(scale));
  }
  store_bytes(out.quants, quants);
  const int32_t first_sum = sum_of_half(quants, 0);
  const int32_t second_sum = sum_of_half(quants, 1);
  const int32_t sum = first_sum + second_sum;
  out.scale = scale;
  out.sum = scale * static_cast<float>(sum);
  out.quant_sum = sum;
  out.half_sums = (first_sum & 0xffff) | (second_sum << 16);
}

static void make_ready_i8(const float* values, uint32_t n, ReadyBlock* out) {
  uint32_t first = 0;
  for (; first + kBlockColumns <= n; first += kBlockColumns, out += kPanelRows)
    make_block_ready(values + first, *out);
  if (first == n) return;
  float last[kBlockColumns] = {};
  __builtin_memcpy(last, values + first, (n - first) * sizeof(float));
  make_block_ready(last, *out);
}

// For products with the floats themselves: computes the sums alone.
static void make_ready_f32(const float* values, uint32_t n, ReadyBlock* out) {
  for (uint32_t first = 0; first < n; first += kBlockColumns, out += kPanelRows) {
    float sum = 0.0f;
    const uint32_t end = first + kBlockColumns < n ? first + kBlockColumns : n;
    for (uint32_t k = first; k < end; ++k) sum += values[k];
    out->sum = sum;
  }
}

}  // namespace runnel::RUNNEL_KERNELS
