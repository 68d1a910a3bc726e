// The sums that probabilities are divided by. In a file of its own because these are the costly loops of
// sampling: exp over a whole vocabulary.
#pragma once

#include <cstdint>
#include <span>

namespace runnel {

// Σ exp_f64(logits[i] - max), added in the order of i. max is the largest of them.
double exp_sum(std::span<const float> logits, double max);

// weights[i] = exp_f64(logits[i] - max) · 2^39, the fraction cut off, and their sum. Sums of these are exact,
// so no order of adding can change which tokens are kept. They fit: a vocabulary has at most 2^24 ids.
uint64_t exp_weights(std::span<const double> logits, double max, std::span<uint64_t> weights);

}  // namespace runnel
