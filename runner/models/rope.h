// Ways to rotate heads, for the functions that describe architectures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/backend/decoder_spec.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Pair i of rotary_dim / 2 rotates by theta^(-2i / rotary_dim) / factors[i] radians a position: RoPE (arXiv
// 2104.09864), scaled as in Llama 3 and LongRoPE (2402.13753), where each pair has a factor of its own.
// Without factors all are 1.
RopeSpec rope_spec(Rope pairs, double theta, std::span<const float> factors = {});

// The same with one factor for all pairs.
RopeSpec scaled_rope_spec(Rope pairs, double theta, double factor);

// The rope that the hyper-parameters ask for: unscaled, with one factor, or by YaRN (arXiv 2309.00071).
RopeSpec usual_rope(Rope pairs, const ModelConfig& config);

// Reads the factors of a tensor, one for each pair. Returns nothing after a failure. A factor that is not a
// number, or with which a pair would rotate too fast, fails the load.
std::vector<float> rope_factors(const std::string& name, const ModelConfig& config, WeightLoader& loader);

// What the name of the arithmetic ends in with this model, as its decoder tells its config: "-short" or
// "-long" if it has two sets of frequencies, of which the longest context decides.
std::string rope_suffix(const ModelConfig& config);

}  // namespace runnel
