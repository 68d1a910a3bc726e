// Which experts a row uses: those with the largest logits of its router. In a file of its own because kernels
// of a GPU include it.
#pragma once

#include <bit>
#include <cstdint>

#include "runner/backend/host_device.h"

namespace runnel {

// A key that orders experts: the larger key goes first, and no key is 0 or UINT64_MAX. Equal logits are
// ordered by index, the lower first. A NaN is below all other logits, whatever its bits are, since a GPU and
// a CPU compute NaNs with different bits.
RUNNEL_HOST_DEVICE inline uint64_t expert_rank(float logit, uint32_t index) {
  if (logit != logit) return 0xffffffffu - index;
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);  // both zeros become +0
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | (0xffffffffu - index);
}

RUNNEL_HOST_DEVICE inline uint32_t expert_of_rank(uint64_t rank) {
  return 0xffffffffu - static_cast<uint32_t>(rank);
}

}  // namespace runnel
