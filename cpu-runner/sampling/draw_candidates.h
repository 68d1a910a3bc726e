// Tokens that may be drawn, and which of them top_k and top_p keep.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace runnel {

struct Candidate {
  double logit;
  uint32_t id;

  // More likely first, ties to the lower id.
  friend bool precedes(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
};

// Precedes no candidate; every other candidate precedes it.
inline constexpr Candidate kLastCandidate = {-std::numeric_limits<double>::infinity(),
                                             std::numeric_limits<uint32_t>::max()};

// A candidate with its share of the probability; see exp_weight in runner/sampling/exp_sum.h.
struct WeightedCandidate {
  Candidate candidate;
  uint64_t weight;
};

// Adds up the weights of candidates, most likely first, until the sum reaches needed. Returns that candidate
// and the sum. The sum of all weights must reach needed. Leaves candidates changed.
struct LastNeeded {
  Candidate candidate;
  uint64_t reached;
};
LastNeeded last_needed(std::vector<WeightedCandidate>& candidates, uint64_t needed);

}  // namespace runnel
