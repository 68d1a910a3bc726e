// Ways to rotate heads, for the functions that describe architectures.
#pragma once

#include <span>

#include "runner/decoder_spec.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Pair i of rotary_dim / 2 turns by theta^(-2i / rotary_dim) / factors[i] radians a position: RoPE (arXiv
// 2104.09864), scaled as Llama 3 and LongRoPE (2402.13753) do it, each pair by a factor of its own, or all
// alike. No factors: ones.
RopeSpec rope_spec(Rope pairs, double theta, std::span<const float> factors = {});

// The same with one factor for all pairs.
RopeSpec scaled_rope_spec(Rope pairs, double theta, double factor);

// The factors of a tensor, one for each pair; empty after a failure. One with which a pair turns too fast, or
// that is no number, fails the load.
std::vector<float> rope_factors(const std::string& name, const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel
