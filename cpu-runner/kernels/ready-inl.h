// A row of floats made ready for products: each block of 32 as signed bytes with a scale (docs/numerics.md).
#pragma once

#include "cpu-runner/kernels/product.h"
#include "cpu-runner/kernels/vector-inl.h"

namespace runnel::RUNNEL_KERNELS {

RUNNEL_INLINE Int8Lanes larger(Int8Lanes a, Int8Lanes b) {
  return a > b ? a : b;
}

// max |x|, compared as whole numbers: there, not-a-number is larger than infinity, and stays.
RUNNEL_INLINE float largest_magnitude(const Float8* x) {
  Int8Lanes largest = {};
  for (int i = 0; i < 4; ++i) largest = larger(largest, bits_of(x[i]) & 0x7fffffff);
  largest = larger(largest, __builtin_shufflevector(largest, largest, 4, 5, 6, 7, 0, 1, 2, 3));
  largest = larger(largest, __builtin_shufflevector(largest, largest, 2, 3, 0, 1, 6, 7, 4, 5));
  largest = larger(largest, __builtin_shufflevector(largest, largest, 1, 0, 3, 2, 5, 4, 7, 6));
  return from_bits(largest)[0];
}

// x to the nearest integer, ties to even, as in exp of vector-inl.h; within -127 and 127.
RUNNEL_INLINE Int8Lanes to_quants(Float8 x) {
  const Float8 shift = broadcast(0x1.8p+23f);
  const Float8 limit = broadcast(127.0f);
  x = x > -limit ? x : -limit;
  x = x < limit ? x : limit;
  return bits_of(x + shift) - bits_of(shift);
}

RUNNEL_INLINE int32_t sum_of(Int8Lanes x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

RUNNEL_INLINE void store_bytes(int8_t* to, const Int8Lanes* quants) {
#if RUNNEL_HAS_AVX2
  // Packing works in each half of a vector: it leaves fours of bytes in the order 0 2 4 6 1 3 5 7.
  const __m256i low = _mm256_packs_epi32((__m256i)quants[0], (__m256i)quants[1]);
  const __m256i high = _mm256_packs_epi32((__m256i)quants[2], (__m256i)quants[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
#else
  for (int i = 0; i < 32; ++i) to[i] = static_cast<int8_t>(quants[i / 8][i % 8]);
#endif
}

RUNNEL_INLINE void make_block_ready(const float* values, uint32_t block, const ReadyBlocks& out) {
  Float8 x[4];
  Int8Lanes quants[4] = {};
  for (int i = 0; i < 4; ++i) x[i] = load(values + i * 8);
  const float scale = largest_magnitude(x) / 127.0f;
  if (scale > 0.0f && scale <= __FLT_MAX__) {
    for (int i = 0; i < 4; ++i) quants[i] = to_quants(x[i] / broadcast(scale));
  }
  store_bytes(out.quants + block * kBlockColumns, quants);
  const int32_t first_sum = sum_of(quants[0] + quants[1]);
  const int32_t second_sum = sum_of(quants[2] + quants[3]);
  const int32_t sum = first_sum + second_sum;
  out.scales[block] = scale;
  out.quant_sums[block] = sum;
  out.half_sums[block] = (first_sum & 0xffff) | (second_sum << 16);
  out.sums[block] = scale * static_cast<float>(sum);
}

static void make_ready_i8(const float* values, uint32_t n, const ReadyBlocks& out) {
  uint32_t first = 0;
  for (; first + kBlockColumns <= n; first += kBlockColumns)
    make_block_ready(values + first, first / kBlockColumns, out);
  if (first == n) return;
  float last[kBlockColumns] = {};
  __builtin_memcpy(last, values + first, (n - first) * sizeof(float));
  make_block_ready(last, first / kBlockColumns, out);
}

// For products with the floats themselves.
static void make_ready_f32(const float* values, uint32_t n, const ReadyBlocks& out) {
  for (uint32_t first = 0; first < n; first += kBlockColumns) {
    float sum = 0.0f;
    const uint32_t end = first + kBlockColumns < n ? first + kBlockColumns : n;
    for (uint32_t k = first; k < end; ++k) sum += values[k];
    out.sums[first / kBlockColumns] = sum;
  }
}

}  // namespace runnel::RUNNEL_KERNELS
