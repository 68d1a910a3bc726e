#include "cpu-runner/sampling/draw_bounds.h"

#include <algorithm>
#include <cmath>

#include "runner/sampling/gumbel.h"

namespace runnel {

float DrawBounds::floor_of(double key) const {
  // For a logit that reaches key, the product exceeds the logit by at most the roundings of two doubles,
  // which the rounding to a float removes.
  const double logit = std::clamp(key * temperature_, static_cast<double>(kLowestLogit),
                                  static_cast<double>(std::numeric_limits<float>::max()));
  return static_cast<float>(logit);
}

float DrawBounds::floor_of_computed(double key) const {
  return floor_of(key - 0x1p-40 * (std::abs(most_likely_) + 64.0));
}

// A logit l with the random word b reaches key only if g >= key - l / temperature, where g = -log(-log u) and
// u = (b + 0.5) / 2^32. Since -log u >= 1 - u, g is at most -log(1 - u) = 32 log 2 - log(w + 0.5) with
// w = 2^32 - 1 - b. So log2(w + 0.5) <= 32 + (l / temperature - key) log2(e) must hold.
//
// Kernels look at v = floor(w / 256), which a float holds exactly. As an integer, the bits of that float are
// I = 2^23 (127 + e + f) where v = 2^e (1 + f), and
// log2(w + 0.5) >= 8 + log2(v) >= 8 + e + f = I / 2^23 - 119.
// If v is 0, so is I, and every word that may win passes. So this must hold:
//
//   I <= 2^23 (151 + (l / temperature - key) log2(e)).
//
// Floats have errors: I errs by 64 when it becomes a float; scale, the product, offset and the sum err by
// 2^-24 of themselves. A tempered logit that reaches key is at most 105 below key and not above the most
// likely one. With S = |key| + |most likely| the error is therefore below 2^-24 (8 S + 1024) of a binary
// order of magnitude; twice that is added.
Contest DrawBounds::contest_with(double key) const {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kUnit = 0x1p23;
  constexpr double kTooLarge = 0x1p80;  // beyond this, floats could become infinite
  Contest contest;
  contest.least = floor_of_computed(key - kMaxGumbel);
  const double size = std::abs(key) + std::abs(most_likely_);
  if (size > kTooLarge) {
    contest.scale = 0.0f;
    contest.offset = std::numeric_limits<float>::max();
    return contest;
  }
  const double margin = 0x1p-20 * (size + 128.0);
  contest.scale = static_cast<float>(kUnit * kLog2E / temperature_);
  contest.offset = static_cast<float>(kUnit * (151.0 - key * kLog2E + margin));
  return contest;
}

}  // namespace runnel
