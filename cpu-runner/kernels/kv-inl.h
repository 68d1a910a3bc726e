// Rows of the KV cache, the key or value of one head at one position: rounding one to the cache's type, and
// widening it again. Q8_0 is, for each 32 values, their scale as a half and then 32 signed bytes.
#pragma once

#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/vector-inl.h"

namespace runnel::RUNNEL_KERNELS {

static void store_f16_row(const float* in, uint32_t n, uint16_t* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) store_half(out + i, load(in + i));
  if (i == n) return;
  uint16_t rest[8];
  store_half(rest, load_part(in + i, n - i));
  for (uint32_t lane = 0; i + lane < n; ++lane) out[i + lane] = rest[lane];
}

static void widen_f16_row(const uint16_t* from, uint32_t n, float* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) store(out + i, load_half(from + i));
  if (i == n) return;
  uint16_t rest[8] = {};
  for (uint32_t lane = 0; i + lane < n; ++lane) rest[lane] = from[i + lane];
  store(out + i, load_half(rest));
}

// The largest of 32 magnitudes. Their bits are ordered as they are, with not-a-numbers above all: one in the
// row makes the scale one, and is not lost.
RUNNEL_INLINE float largest_magnitude(const float* in) {
  Int8Lanes largest = {};
  for (uint32_t i = 0; i < kKvBlockValues; i += 8) {
    const Int8Lanes bits = bits_of(load(in + i)) & 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  int32_t bits = 0;
  for (int lane = 0; lane < 8; ++lane) bits = largest[lane] > bits ? largest[lane] : bits;
  return from_bits(Int8Lanes{bits})[0];
}

static void store_q8_0_block(const float* in, std::byte* out) {
  const Float8 shift = broadcast(0x1.8p+23f);  // rounds to the nearest integer, see exp
  const Int8Lanes zero = {};
  uint16_t scales[8];
  store_half(scales, broadcast(largest_magnitude(in) / 127.0f));
  __builtin_memcpy(out, scales, sizeof(uint16_t));
  const Float8 scale = load_half(scales);
  auto* bytes = reinterpret_cast<int8_t*>(out + sizeof(uint16_t));
  for (uint32_t i = 0; i < kKvBlockValues; i += 8) {
    Int8Lanes quants = bits_of(load(in + i) / scale + shift) - bits_of(shift);
    quants = quants > 127 ? zero + 127 : quants;  // a scale below a half's precision may be too small
    quants = quants < -127 ? zero - 127 : quants;
    quants = scale == broadcast(0.0f) ? zero : quants;
    for (uint32_t lane = 0; lane < 8; ++lane) bytes[i + lane] = static_cast<int8_t>(quants[lane]);
  }
}

RUNNEL_INLINE void widen_q8_0_block(const std::byte* from, float* out) {
  // Eight halves, of which the first is the scale; the others lie in the same block.
  const Float8 scale = broadcast(load_half(reinterpret_cast<const uint16_t*>(from))[0]);
  const auto* bytes = reinterpret_cast<const int8_t*>(from + sizeof(uint16_t));
  for (uint32_t i = 0; i < kKvBlockValues; i += 8) store(out + i, scale * load_bytes(bytes + i));
}

static void store_kv(KvType type, const float* in, uint32_t n, std::byte* out) {
  switch (type) {
    case KvType::kF16:
      return store_f16_row(in, n, reinterpret_cast<uint16_t*>(out));
    case KvType::kF32:
      __builtin_memcpy(out, in, n * sizeof(float));
      return;
    case KvType::kQ8_0:
      for (uint32_t i = 0; i < n; i += kKvBlockValues, out += kKvBlockBytes) store_q8_0_block(in + i, out);
  }
}

// Writes up to 7 floats beyond n.
RUNNEL_INLINE void widen_kv(KvType type, const std::byte* from, uint32_t n, float* out) {
  switch (type) {
    case KvType::kF16:
      return widen_f16_row(reinterpret_cast<const uint16_t*>(from), n, out);
    case KvType::kF32:
      __builtin_memcpy(out, from, n * sizeof(float));
      return;
    case KvType::kQ8_0:
      for (uint32_t i = 0; i < n; i += kKvBlockValues, from += kKvBlockBytes) widen_q8_0_block(from, out + i);
  }
}

}  // namespace runnel::RUNNEL_KERNELS
