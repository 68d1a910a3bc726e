// The noise of a Gumbel-max draw: a number for each token id at each position of each seed.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "runner/backend/host_device.h"
#include "runner/backend/numerics.h"
#include "runner/sampling/philox.h"

namespace runnel {

// Below this temperature there is no noise: the most likely token is taken.
inline constexpr float kGreedyTemperature = 1e-6f;

// The random bits of the four ids 4 · group to 4 · group + 3.
RUNNEL_HOST_DEVICE inline std::array<uint32_t, 4> gumbel_bits(uint64_t seed, uint32_t position,
                                                              uint32_t group) {
  return philox4x32({group, position, 0, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// The uniform number for 32 random bits is (bits + 0.5) / 2^32, which is never 0 or 1.
RUNNEL_HOST_DEVICE inline double gumbel(uint32_t bits) {
  const double u = (bits + 0.5) * 0x1p-32;
  return -log_f64(-log_f64(u));
}

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// An upper bound of gumbel(bits) without a logarithm: -log(-log u) <= -log(1 - u), and
// 1 - u >= 2^-(n + 1), where n is the number of leading ones of bits.
RUNNEL_HOST_DEVICE inline double gumbel_bound(uint32_t bits) {
  return (std::countl_one(bits) + 1) * kLn2 + 1e-9;
}
inline constexpr double kMaxGumbel = 33 * kLn2 + 1e-9;

}  // namespace runnel
