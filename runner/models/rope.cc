#include "runner/models/rope.h"

#include <string>
#include <utility>

#include "runner/backend/numerics.h"
#include "runner/check.h"

namespace runnel {

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

}  // namespace runnel
