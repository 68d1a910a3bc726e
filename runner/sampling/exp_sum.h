// The sums that probabilities are divided by. In a file of its own because these are the costly loops of
// sampling: exp over a whole vocabulary.
#pragma once

#include <cstdint>
#include <span>

#include "runner/host_device.h"
#include "runner/numerics.h"

namespace runnel {

// What a candidate weighs whose logit is so much above the largest: exp_f64(x) · 2^39, the fraction cut off.
// Sums of these are exact, so no order of adding can change which tokens are kept. They fit: a vocabulary has
// at most 2^24 ids.
RUNNEL_HOST_DEVICE inline uint64_t exp_weight(double x) {
  // exp(-28) · 2^39 is below 1: of a sure model's vocabulary nearly nothing is above.
  constexpr double kWeightless = -28.0;
  return x < kWeightless ? 0 : static_cast<uint64_t>(exp_f64(x) * 0x1p39);
}

// Σ exp_f64(logits[i] - max), added in the order of i. max is the largest of them.
double exp_sum(std::span<const float> logits, double max);

// weights[i] = exp_weight(logits[i] - max), and their sum.
uint64_t exp_weights(std::span<const double> logits, double max, std::span<uint64_t> weights);

}  // namespace runnel
