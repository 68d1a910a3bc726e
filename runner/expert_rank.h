// Which experts a row uses: those of its router's largest logits, apart for kernels of a GPU.
#pragma once

#include <bit>
#include <cstdint>

#include "runner/host_device.h"

namespace runnel {

// Orders experts: the larger key goes first, and no key is 0 or UINT64_MAX. Equal logits are ordered by
// index, the lower first. A logit that is no number is below all others, whatever its bits: a GPU and a CPU
// compute NaNs of different bits.
RUNNEL_HOST_DEVICE inline uint64_t expert_rank(float logit, uint32_t index) {
  if (logit != logit) return 0xffffffffu - index;
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);  // of both zeros the one
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | (0xffffffffu - index);
}

RUNNEL_HOST_DEVICE inline uint32_t expert_of_rank(uint64_t rank) {
  return 0xffffffffu - static_cast<uint32_t>(rank);
}

}  // namespace runnel
