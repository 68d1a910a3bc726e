// Bounds on single-precision logits that replace comparisons in double precision. Every logit that passes the
// comparison is on the right side of the bound, and few others are.
#pragma once

#include <limits>

#include "cpu-runner/kernels/draw_kernels.h"

namespace runnel {

// All logits are finite. An id that is no candidate has a smaller value in the row (-infinity).
inline constexpr float kLowestLogit = std::numeric_limits<float>::lowest();

// For keys. A key is a logit divided by temperature, alone or with noise added.
class DrawBounds {
 public:
  // temperature is at least kGreedyTemperature; most_likely is the largest key without noise.
  DrawBounds(double temperature, double most_likely) : temperature_(temperature), most_likely_(most_likely) {}

  // Every logit whose key, in double arithmetic, is at least `key` is at least the result.
  float floor_of(double key) const;
  // Like floor_of, for a key that was itself computed from most_likely and small numbers.
  float floor_of_computed(double key) const;
  // What a logit and its random word must be for the logit's key with noise to reach `key`. With its noise,
  // the most likely logit must reach `key` too.
  Contest contest_with(double key) const;

 private:
  double temperature_;
  double most_likely_;
};

}  // namespace runnel
