// Reductions over the threads of a block. All threads must call them, and all get the same result.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/lang.h"
#include "cuda-runner/kernels/rank-inl.h"

namespace runnel {

inline constexpr uint32_t kMaxBlockWarps = 16;
inline constexpr uint32_t kBins = 16;

__device__ inline uint64_t shuffle_xor_wide(uint64_t value, uint32_t mask) {
  const uint32_t low = shuffle_xor(static_cast<uint32_t>(value), mask);
  const uint32_t high = shuffle_xor(static_cast<uint32_t>(value >> 32), mask);
  return static_cast<uint64_t>(high) << 32 | low;
}

__device__ inline uint64_t shuffle_wide(uint64_t value, uint32_t from) {
  const uint32_t low = shuffle(static_cast<uint32_t>(value), from);
  const uint32_t high = shuffle(static_cast<uint32_t>(value >> 32), from);
  return static_cast<uint64_t>(high) << 32 | low;
}

// The sum of the values of this lane and of those before it.
__device__ inline uint64_t sum_up_to_lane(uint64_t value) {
  for (uint32_t distance = 1; distance < kWarpSize; distance *= 2) {
    const uint64_t other = shuffle_wide(value, (lane() - distance) % kWarpSize);
    if (lane() >= distance) value += other;
  }
  return value;
}

// Sums of integers, which are exact in any order.
struct BlockSums {
  Shared<uint64_t, kMaxBlockWarps * kBins> of_warps;
  Shared<uint64_t, kBins> totals;

  // total[bin] = the sum of sums[bin] over all threads. Overwrites sums.
  __device__ void add(uint64_t (&sums)[kBins], uint64_t (&total)[kBins]) {
    const uint64_t mine = add_in_warp<kBins>(sums);
    sync_block();  // the results of the last call have been read
    if (lane() % 2 == 0) of_warps[warp() * kBins + lane() / 2] = mine;
    sync_block();
    if (threadIdx.x < kBins) {
      uint64_t sum = 0;
      for (uint32_t i = 0; i < blockDim.x / kWarpSize; ++i) sum += of_warps[i * kBins + threadIdx.x];
      totals[threadIdx.x] = sum;
    }
    sync_block();
    for (uint32_t bin = 0; bin < kBins; ++bin) total[bin] = totals[bin];
  }

  // The sum of the values of the threads before this one.
  __device__ uint64_t before(uint64_t value) {
    const uint64_t up_to_lane = sum_up_to_lane(value);
    sync_block();  // the results of the last call have been read
    if (lane() == kWarpSize - 1) of_warps[warp()] = up_to_lane;
    sync_block();
    uint64_t sum = up_to_lane - value;
    for (uint32_t i = 0; i < warp(); ++i) sum += of_warps[i];
    return sum;
  }

  __device__ uint64_t add(uint64_t value) {
    for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) value += shuffle_xor_wide(value, mask);
    sync_block();  // the results of the last call have been read
    if (lane() == 0) of_warps[warp()] = value;
    sync_block();
    uint64_t sum = 0;
    for (uint32_t i = 0; i < blockDim.x / kWarpSize; ++i) sum += of_warps[i];
    return sum;
  }

 private:
  // Returns the sum of bin lane() / 2 over the warp. At each step two lanes share the bins they have: each
  // keeps one half and adds the other lane's values of that half.
  template <uint32_t kLeft>
  __device__ static uint64_t add_in_warp(uint64_t (&sums)[kBins]) {
    if constexpr (kLeft == 1) {
      return sums[0] + shuffle_xor_wide(sums[0], 1);
    } else {
      constexpr uint32_t kHalf = kLeft / 2;
      const bool has_upper = (lane() & kLeft) != 0;
      for (uint32_t bin = 0; bin < kHalf; ++bin) {
        const uint64_t given = has_upper ? sums[bin] : sums[bin + kHalf];
        const uint64_t kept = has_upper ? sums[bin + kHalf] : sums[bin];
        sums[bin] = kept + shuffle_xor_wide(given, kLeft);
      }
      return add_in_warp<kHalf>(sums);
    }
  }
};

// The largest rank of all threads.
struct BlockFirst {
  Shared<uint64_t, kMaxBlockWarps> keys;
  Shared<uint32_t, kMaxBlockWarps> ties;

  __device__ Rank find(Rank rank) {
    for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) {
      const Rank other{shuffle_xor_wide(rank.key, mask), shuffle_xor(rank.tie, mask)};
      if (precedes(other, rank)) rank = other;
    }
    sync_block();  // the results of the last call have been read
    if (lane() == 0) {
      keys[warp()] = rank.key;
      ties[warp()] = rank.tie;
    }
    sync_block();
    for (uint32_t i = 0; i < blockDim.x / kWarpSize; ++i) {
      const Rank other{keys[i], ties[i]};
      if (precedes(other, rank)) rank = other;
    }
    return rank;
  }
};

}  // namespace runnel
