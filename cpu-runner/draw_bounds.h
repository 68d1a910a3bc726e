// Bounds on single-precision logits that stand for comparisons in double: whatever passes the comparison is
// on the right side of the bound, and little else.
#pragma once

#include <limits>

#include "cpu-runner/kernels/draw_kernels.h"

namespace runnel {

// All logits are finite; what is no candidate in a row is below.
inline constexpr float kLowestLogit = std::numeric_limits<float>::lowest();

// For keys, which are logits divided by temperature, alone or with noise added.
class DrawBounds {
 public:
  // temperature is at least kGreedyTemperature; most_likely is the largest key without noise.
  DrawBounds(double temperature, double most_likely) : temperature_(temperature), most_likely_(most_likely) {}

  // Every logit whose key is at least so much, as double arithmetic has it, is at least this.
  float floor_of(double key) const;
  // The same for a key that was itself computed, from most_likely and small numbers.
  float floor_of_computed(double key) const;
  // What a logit and its random word must be for its key with noise to reach `key`, which is one that the
  // most likely reaches or exceeds with its noise.
  Contest contest_with(double key) const;

 private:
  double temperature_;
  double most_likely_;
};

}  // namespace runnel
