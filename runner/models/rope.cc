#include "runner/models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "runner/backend/numerics.h"
#include "runner/check.h"

namespace runnel {
namespace {

// Pairs that turn often in the first length stay as they are, those that turn rarely are divided by the
// factor, and between them the share of each changes with the number of the pair.
RopeSpec yarn_rope_spec(Rope pairs, const ModelConfig& config) {
  constexpr double kMinRange = 0.001;
  RopeSpec rope = rope_spec(pairs, config.rope_theta);
  rope.magnitude = config.rope_magnitude;
  const auto pair_with = [&](double turns) {
    const double length = config.original_context_length / (turns * 2.0 * std::numbers::pi);
    return pairs.rotary_dim * log_f64(length) / (2.0 * log_f64(config.rope_theta));
  };
  double low = pair_with(config.yarn_fast_turns);
  double high = pair_with(config.yarn_slow_turns);
  if (!config.yarn_keeps_fractions) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, pairs.rotary_dim - 1.0);
  for (size_t pair = 0; pair < rope.frequencies.size(); ++pair) {
    const double scaled =
        std::clamp((static_cast<double>(pair) - low) / std::max(high - low, kMinRange), 0.0, 1.0);
    double& frequency = rope.frequencies[pair];
    frequency = frequency / config.rope_factor * scaled + frequency * (1.0 - scaled);
  }
  return rope;
}

}  // namespace

RopeSpec rope_spec(Rope pairs, double theta, std::span<const float> factors) {
  const uint32_t num_pairs = pairs.rotary_dim / 2;
  CHECK(factors.empty() || factors.size() == num_pairs);
  RopeSpec rope{.pairs = pairs, .frequencies = {}};
  for (uint32_t pair = 0; pair < num_pairs; ++pair) {
    const double frequency = exp_f64(-2.0 * pair / pairs.rotary_dim * log_f64(theta));
    rope.frequencies.push_back(frequency / (factors.empty() ? 1.0 : double{factors[pair]}));
  }
  return rope;
}

RopeSpec scaled_rope_spec(Rope pairs, double theta, double factor) {
  RopeSpec rope = rope_spec(pairs, theta);
  for (double& frequency : rope.frequencies) frequency = frequency / factor;
  return rope;
}

RopeSpec usual_rope(Rope pairs, const ModelConfig& config) {
  if (config.yarn_fast_turns != 0.0) return yarn_rope_spec(pairs, config);
  return scaled_rope_spec(pairs, config.rope_theta, config.rope_factor);
}

std::vector<float> rope_factors(const std::string& name, const ModelConfig& config, WeightLoader& loader) {
  constexpr double kMaxAngle = 1 << 20;  // sin_cos_f64 is accurate enough up to here
  constexpr float kMaxFactor = 1e6f;
  if (config.rope_factor != 1.0)
    loader.refuse("has both a factor for all positions and " + loader.what_of(name) + ", one for each pair");
  std::vector<float> factors = loader.values(name, config.rotary_dim / 2);
  const double min_factor = config.context_length / kMaxAngle;
  for (const float factor : factors) {
    if (factor >= min_factor && factor <= kMaxFactor) continue;
    loader.refuse("has " + std::to_string(factor) + " in " + loader.what_of(name) +
                  ", which is outside the supported range");
    return {};
  }
  return factors;
}

std::string rope_suffix(const ModelConfig& config) {
  if (config.max_short_positions == 0) return "";
  return config.max_positions <= config.max_short_positions ? "-short" : "-long";
}

}  // namespace runnel
