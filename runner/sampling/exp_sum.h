// The sum that probabilities are divided by. In a file of its own because it is the one costly loop of
// sampling: exp over a whole vocabulary.
#pragma once

#include <span>

namespace runnel {

// Σ exp_f64(logits[i] - max), added in the order of i. max is the largest of them.
double exp_sum(std::span<const double> logits, double max);
double exp_sum(std::span<const float> logits, double max);

}  // namespace runnel
