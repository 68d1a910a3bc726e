// Device functions that read octets of the KV cache. A load leaves the values as they are stored, so that a
// kernel can begin it long before it needs them, and widens them to floats afterwards.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/device_kv.h"

namespace runnel {

template <KvType kType>
struct StoredOctet {
  static constexpr uint32_t kValuesPerWord = sizeof(uint32_t) / kv_value_bytes(kType);
  static constexpr uint32_t kWords = kOctet / kValuesPerWord;

  uint32_t words[kWords];
  uint32_t scales[kOctet / 2];  // for Q8_0, of each value a half

  __device__ void load_words(const DeviceKv& kv, size_t run, uint32_t octet) {
    const size_t first = run + static_cast<size_t>(octet) * sizeof(words);
    if constexpr (kType == KvType::kQ8_0) {
      const auto bits = kv.bytes.load<uint2>(first);
      words[0] = bits.x;
      words[1] = bits.y;
    } else {
      for (uint32_t i = 0; i < kWords; i += 4) {
        const auto bits = kv.bytes.load<uint4>(first + i * sizeof(uint32_t));
        words[i] = bits.x;
        words[i + 1] = bits.y;
        words[i + 2] = bits.z;
        words[i + 3] = bits.w;
      }
    }
  }
  __device__ static float half_of(uint32_t word, uint32_t i) {
    return from_half(static_cast<uint16_t>(word >> (16 * (i % 2))));
  }
  __device__ void widen(float (&out)[kOctet]) const {
    for (uint32_t i = 0; i < kOctet; ++i) {
      const uint32_t word = words[i / kValuesPerWord];
      if constexpr (kType == KvType::kF32) {
        out[i] = std::bit_cast<float>(word);
      } else if constexpr (kType == KvType::kF16) {
        out[i] = half_of(word, i);
      } else {
        out[i] = half_of(scales[i / 2], i) * static_cast<float>(static_cast<int8_t>(word >> (8 * (i % 4))));
      }
    }
  }
};

// Columns 8 * octet to 8 * octet + 7 of a position's key. keys: the offset of the run.
template <KvType kType>
__device__ inline StoredOctet<kType> load_key(const DeviceKv& kv, size_t keys, uint32_t octet,
                                              uint32_t position_in_block) {
  StoredOctet<kType> key;
  key.load_words(kv, keys, kv.key_octet(octet, position_in_block));
  if constexpr (kType == KvType::kQ8_0) {
    const uint32_t scale = kv.bytes.load<uint16_t>(keys + kv.key_scale(octet * kOctet, position_in_block));
    for (uint32_t& two : key.scales) two = scale | scale << 16;
  }
  return key;
}

// One column of the values at positions 8 * octet to 8 * octet + 7 of the block. values: the offset of the
// run.
template <KvType kType>
__device__ inline StoredOctet<kType> load_value(const DeviceKv& kv, size_t values, uint32_t octet,
                                                uint32_t column) {
  StoredOctet<kType> value;
  value.load_words(kv, values, kv.value_octet(octet, column));
  if constexpr (kType == KvType::kQ8_0) {
    const auto bits = kv.bytes.load<uint4>(values + kv.value_scales(octet, column));
    value.scales[0] = bits.x;
    value.scales[1] = bits.y;
    value.scales[2] = bits.z;
    value.scales[3] = bits.w;
  }
  return value;
}

}  // namespace runnel
