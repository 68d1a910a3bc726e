// Finds the last candidate that is kept, in the order from most to least likely. This is a search for a rank
// and needs no sort. It finds four bits of the rank at a time, from the highest: each round goes once over
// the candidates that have the bits found so far, and sums their weights for each of the 16 values of the
// next four bits.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/rank-inl.h"

namespace runnel {

struct LastKeptMemory {
  BlockSums sums;
  Shared<uint64_t, 1> key;
  Shared<uint32_t, 1> tie;
};

// The first digits of a rank; a digit is four bits.
struct RankDigits {
  static constexpr uint32_t kBits = 4;
  static constexpr uint32_t kKeyDigits = 64 / kBits;
  static constexpr uint32_t kDigits = kKeyDigits + 32 / kBits;

  __device__ static uint32_t digit(const Rank& rank, uint32_t index) {
    if (index < kKeyDigits) return rank.key >> (64 - kBits * (index + 1)) & (kBins - 1);
    if (index == kDigits) return 0;  // after the last digit; only one candidate is left
    return rank.tie >> (32 - kBits * (index - kKeyDigits + 1)) & (kBins - 1);
  }

  __device__ bool are_of(const Rank& rank) const {
    return (rank.key & key_mask) == known.key && (rank.tie & tie_mask) == known.tie;
  }
  __device__ void append(uint32_t value) {
    if (end < kKeyDigits) {
      const uint32_t shift = 64 - kBits * (end + 1);
      known.key |= static_cast<uint64_t>(value) << shift;
      key_mask |= static_cast<uint64_t>(kBins - 1) << shift;
    } else {
      const uint32_t shift = 32 - kBits * (end - kKeyDigits + 1);
      known.tie |= value << shift;
      tie_mask |= (kBins - 1) << shift;
    }
    ++end;
  }

  Rank known{0, 0};
  uint64_t key_mask = 0;
  uint32_t tie_mask = 0;
  uint32_t end = 0;  // number of known digits
};

// Goes through the candidates down to `last`, most likely first, and returns the one at which the sum of
// weigh(logit) reaches `needed`. Returns `last` if the sum stays below. candidates.for_each(fn) calls
// fn(logit, id) for this thread's candidates, in any order. All threads of the block must call it.
template <typename Candidates, typename Weigh>
__device__ inline Rank last_kept(const Candidates& candidates, const Rank& last, uint64_t needed,
                                 const Weigh& weigh, LastKeptMemory& memory) {
  RankDigits digits;
  // When all digits are known, only one candidate has them.
  for (uint32_t round = 0; round <= RankDigits::kDigits; ++round) {
    uint64_t sums[kBins] = {};
    uint32_t num_own = 0;
    Rank own{0, 0};
    candidates.for_each([&](double logit, uint32_t id) {
      const Rank rank = rank_of(logit, id);
      if (!digits.are_of(rank) || precedes(last, rank)) return;
      ++num_own;
      own = rank;
      const uint64_t weight = weigh(logit);
      const uint32_t digit = RankDigits::digit(rank, digits.end);
      for (uint32_t bin = 0; bin < kBins; ++bin) sums[bin] += digit == bin ? weight : 0;
    });
    const uint64_t num_all = memory.sums.add(num_own);
    if (num_all == 1) {
      if (num_own == 1) {
        memory.key[0] = own.key;
        memory.tie[0] = own.tie;
      }
      sync_block();
      return {memory.key[0], memory.tie[0]};
    }
    uint64_t totals[kBins];
    memory.sums.add(sums, totals);
    uint32_t value = kBins;
    uint64_t before = 0;  // the weight of the candidates with a larger digit
    for (uint32_t bin = kBins; bin-- > 0 && value == kBins;) {
      if (before + totals[bin] >= needed) {
        value = bin;
      } else {
        before += totals[bin];
      }
    }
    if (value == kBins) break;
    needed -= before;
    digits.append(value);
  }
  return last;
}

}  // namespace runnel
