// A head of a row of queries, keys or values, normed and rotated by a warp, and rounded to the type of the
// cache (docs/numerics.md, "Rotation and the cache"). Lane i has the columns i, 32 + i, ...
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/rotation.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {

// kGroups: of 32 columns, as many as the longest head has. Columns beyond the head are zeros.
template <uint32_t kGroups>
struct HeadColumns {
  float normed[kGroups];  // not rotated
  float turned[kGroups];

  __device__ uint32_t column_of(uint32_t group) const { return group * kWarpSize + lane_; }

  // Values that are not rotated have turned = normed, too. All loads are under way before the first value is
  // used. All lanes of a warp must call it.
  __device__ void load(const FloatRows& rows, uint32_t row, uint32_t first_column, uint32_t head_dim,
                       const Rotation& rotation, bool is_rotated, const HeadNorm& norm) {
    const size_t first = static_cast<size_t>(row) * rows.stride + first_column;
    const uint32_t rotary_dim = is_rotated ? rotation.rope.rotary_dim : 0;
    const uint32_t half = rotary_dim / 2;
    float partners[kGroups];  // what a value is rotated with
    float2 angles[kGroups];   // cosine and sine
    float gains[kGroups];
    float partner_gains[kGroups];
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group) {
      const uint32_t column = column_of(group);
      normed[group] = partners[group] = 0.0f;
      angles[group] = float2{1.0f, 0.0f};
      gains[group] = partner_gains[group] = 0.0f;
      if (column < head_dim) normed[group] = rows.values[first + column];
      if (column < head_dim && norm.is_there) gains[group] = norm.gain.load_read_only<float>(column);
      if (column >= rotary_dim) continue;
      const bool is_interleaved = rotation.rope.interleaved;
      const uint32_t partner = is_interleaved ? column ^ 1 : column < half ? column + half : column - half;
      const uint32_t pair = is_interleaved ? column / 2 : column < half ? column : column - half;
      partners[group] = rows.values[first + partner];
      if (norm.is_there) partner_gains[group] = norm.gain.load_read_only<float>(partner);
      angles[group] = rotation.angles.load<float2>(static_cast<size_t>(row) * rotary_dim + size_t{2} * pair);
    }
    if (norm.is_there) {
      const float scale = scale_of(head_dim, norm.epsilon);
      for (uint32_t group = 0; group < kGroups; ++group) {
        normed[group] = (normed[group] * scale) * gains[group];
        partners[group] = (partners[group] * scale) * partner_gains[group];
      }
    }
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group) {
      const uint32_t column = column_of(group);
      const bool is_second = rotation.rope.interleaved ? column % 2 == 1 : column >= half;
      const float other = partners[group] * angles[group].y;
      const float x = std::fma(normed[group], angles[group].x, is_second ? other : -other);
      turned[group] = column < rotary_dim ? x : normed[group];
    }
  }

 private:
  const uint32_t lane_ = recomputed(lane());

  __device__ float scale_of(uint32_t head_dim, float epsilon) const {
    float sums[kGroups];
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group)
      sums[group] = std::fma(normed[group], normed[group], 0.0f);
    // The trees of all groups together, since each step of one waits for the step before.
    for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) {
#pragma unroll
      for (float& sum : sums) sum = sum + shuffle_xor(sum, mask);
    }
#pragma unroll
    for (uint32_t half = kGroups / 2; half > 0; half /= 2) {
#pragma unroll
      for (uint32_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
    }
    return 1.0f / std::sqrt(sums[0] / static_cast<float>(head_dim) + epsilon);
  }
};

// A value as the cache has it: a half, or a byte and the half that scales 32 of them. F32 is stored as it is.
struct CacheValue {
  uint16_t bits;
  uint16_t scale;
};

// All lanes of a warp must call it, each with a value of the same 32 columns.
__device__ inline CacheValue rounded(KvType type, float x) {
  if (type == KvType::kF32) return {0, 0};
  if (type == KvType::kF16) return {to_half(x), 0};
  const uint16_t scale = to_half(largest_magnitude(x) / 127.0f);
  const float d = from_half(scale);
  // The bounds are needed because a scale that is rounded to a half may be too small.
  const float quotient = d == 0.0f ? 0.0f : std::fmin(std::fmax(std::rint(x / d), -127.0f), 127.0f);
  return {static_cast<uint16_t>(static_cast<int16_t>(quotient)), scale};
}

// What a read of the cache gives for x, which was rounded to `value`.
__device__ inline float as_read(KvType type, float x, const CacheValue& value) {
  if (type == KvType::kF32) return x;
  if (type == KvType::kF16) return from_half(value.bits);
  const float scale = from_half(value.scale);
  return std::fma(static_cast<float>(static_cast<int16_t>(value.bits) + 32896), scale, -32896.0f * scale);
}

// Where one position of a KV head is in the cache.
struct CachePlace {
  size_t keys;  // the run of its block
  uint32_t in_block;

  // Stores column `column` of the key or of the value. The lane of the first of 32 columns stores their
  // scale.
  __device__ void store(const DeviceKv& kv, KvType type, bool is_key, uint32_t column, float x,
                        const CacheValue& value) const {
    if (column >= kv.num_octets() * kOctet) return;
    const uint32_t index = is_key ? kv.key_octet(column / kOctet, in_block) * kOctet + column % kOctet
                                  : kv.value_octet(in_block / kOctet, column) * kOctet + in_block % kOctet;
    const size_t run = keys + (is_key ? 0 : kv.run_bytes());
    switch (type) {
      case KvType::kF32:
        kv.bytes.store<float>(run + 4 * index, x);
        break;
      case KvType::kF16:
        kv.bytes.store<uint16_t>(run + 2 * index, value.bits);
        break;
      case KvType::kQ8_0:
        kv.bytes.store<int8_t>(run + index, static_cast<int8_t>(value.bits));
        if (column % kKvScaleColumns == 0)
          kv.bytes.store<uint16_t>(
              run + (is_key ? kv.key_scale(column, in_block)
                            : kv.value_scales(in_block / kOctet, column) + 2 * (in_block % kOctet)),
              value.scale);
        break;
    }
  }
};

}  // namespace runnel
