// The order of candidates in integers. A larger rank is a larger logit; of equal logits the lower id has the
// larger rank.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/lang.h"

namespace runnel {

__device__ inline bool precedes(const Rank& a, const Rank& b) {
  return a.key > b.key || (a.key == b.key && a.tie > b.tie);
}

__device__ inline uint64_t key_of(double logit) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const auto bits = std::bit_cast<uint64_t>(logit + 0.0);  // -0 becomes 0
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}
__device__ inline double logit_of(uint64_t key) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  return std::bit_cast<double>((key & kSign) != 0 ? key & ~kSign : ~key);
}

__device__ inline Rank rank_of(double logit, uint32_t id) {
  return {key_of(logit), ~id};
}

// Precedes every candidate: stands for a row whose logits are not all finite. Its id is kNotFinite.
inline constexpr Rank kNotFiniteRank{UINT64_MAX, ~kNotFinite};
// Every candidate precedes it: stands for no candidate. Its id is kNotFinite too.
inline constexpr Rank kNoRank{0, ~kNotFinite};
// The lowest rank of a logit above -infinity: if it is the last that is kept, all candidates are.
inline constexpr Rank kKeepAll{0x0010000000000000, 0};

}  // namespace runnel
