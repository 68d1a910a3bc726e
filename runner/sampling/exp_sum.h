// The sums that probabilities are divided by. They have a file of their own because these are the expensive
// loops of sampling: exp over a whole vocabulary.
#pragma once

#include <cstdint>
#include <span>

#include "runner/backend/host_device.h"
#include "runner/backend/numerics.h"

namespace runnel {

// The weight of a candidate whose logit is x above the largest one (x <= 0): exp_f64(x) · 2^39 without its
// fraction. Sums of weights are exact, so the order of adding cannot change which tokens are kept. They fit
// 64 bits, since a vocabulary has at most 2^24 ids.
RUNNEL_HOST_DEVICE inline uint64_t exp_weight(double x) {
  // exp(-28) · 2^39 is below 1. If the model is sure, nearly all of the vocabulary lies below this.
  constexpr double kWeightless = -28.0;
  return x < kWeightless ? 0 : static_cast<uint64_t>(exp_f64(x) * 0x1p39);
}

// Σ exp_f64(logits[i] - max), added in the order of i. max is the largest logit.
double exp_sum(std::span<const float> logits, double max);

// Sets weights[i] = exp_weight(logits[i] - max), and returns their sum.
uint64_t exp_weights(std::span<const double> logits, double max, std::span<uint64_t> weights);

}  // namespace runnel
