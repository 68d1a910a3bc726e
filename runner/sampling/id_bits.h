// A set of token ids with one bit for each id: bit id % 32 of word id / 32.
#pragma once

#include <cstdint>
#include <span>

#include "runner/backend/host_device.h"

namespace runnel {

RUNNEL_HOST_DEVICE constexpr uint32_t num_id_words(uint32_t vocab_size) {
  return (vocab_size + 31) / 32;
}

inline bool has_id(std::span<const uint32_t> bits, uint32_t id) {
  return (bits[id / 32] >> id % 32 & 1) != 0;
}

inline void set_id(std::span<uint32_t> bits, uint32_t id, bool is_in) {
  const uint32_t bit = uint32_t{1} << id % 32;
  if (is_in) {
    bits[id / 32] |= bit;
  } else {
    bits[id / 32] &= ~bit;
  }
}

}  // namespace runnel
