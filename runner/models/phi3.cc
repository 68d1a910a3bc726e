#include "runner/models/phi3.h"

#include <vector>

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

constexpr const char* kShortFactors = "rope_factors_short.weight";
constexpr const char* kLongFactors = "rope_factors_long.weight";

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  return {.index = index,
          .attention = tensors.attention(),
          .qkv = {.norm = tensors.norm("attn_norm"),
                  .weight = loader.matrix(
                      {tensors.matrix("attn_qkv", tensors.query_rows() + 2 * tensors.kv_rows())},
                      config.hidden_size),
                  .bias = {},
                  .rope = 0},
          .attention_output = tensors.attention_output(),
          .ffn = tensors.fused_ffn(),
          .ffn_output = tensors.ffn_output()};
}

// One set of factors was found for short texts, and one for long ones. All sequences of a runner use the same
// set, so that the bits of a token do not depend on how long its sequence has become.
RopeSpec long_rope(const ModelConfig& config, WeightLoader& loader) {
  const std::vector<float> short_factors = rope_factors(kShortFactors, config, loader);
  const std::vector<float> long_factors = rope_factors(kLongFactors, config, loader);
  RopeSpec rope = rope_spec(split_pairs(config), config.rope_theta, long_factors);
  rope.magnitude = config.rope_magnitude;
  rope.short_frequencies = rope_spec(split_pairs(config), config.rope_theta, short_factors).frequencies;
  rope.max_short_positions = config.original_context_length;
  return rope;
}

}  // namespace

Result<void> read_phi3(const HyperParameters& parameters, ModelConfig& config) {
  constexpr double kMaxMagnitude = 16.0;
  const Result<uint32_t> original =
      parameters.count("rope.scaling.original_context_length", config.context_length, config.context_length);
  if (!original) return original.error();
  config.original_context_length = *original;
  const Result<double> magnitude =
      parameters.number("rope.scaling.attn_factor", 1.0 / kMaxMagnitude, kMaxMagnitude, 1.0);
  if (!magnitude) return magnitude.error();
  config.rope_magnitude = *magnitude;
  return {};
}

DecoderSpec phi3_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(loader.has(kLongFactors) ? long_rope(config, loader)
                                                : usual_rope(split_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
