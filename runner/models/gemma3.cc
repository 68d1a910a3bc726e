#include "runner/models/gemma3.h"

#include <cmath>
#include <limits>

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

// Indices into DecoderSpec::ropes.
enum : uint32_t { kGlobalRope, kLocalRope };

// The largest model scales queries as if each head had width hidden_size / num_heads. The file does not say
// so, so that model is recognised by its number of layers.
constexpr uint32_t kLayersOfLargest = 62;

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  LayerSpec layer = tensors.usual_layer();
  tensors.add_head_norms(layer.qkv);
  layer.qkv.rope = layer.attention.window == 0 ? kGlobalRope : kLocalRope;
  if (config.num_layers == kLayersOfLargest) {
    layer.attention.scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
  }
  layer.attention_output.norm = tensors.norm("post_attention_norm");
  layer.ffn.nonlinearity = Nonlinearity::kGelu;
  layer.ffn_output.norm = tensors.norm("post_ffw_norm");
  return layer;
}

}  // namespace

Result<void> read_gemma3(const HyperParameters& parameters, ModelConfig& config) {
  constexpr uint32_t kGlobalEvery = 6;
  constexpr uint64_t kMaxGlobalEvery = 1024;
  constexpr double kLocalTheta = 10'000.0;
  constexpr double kMaxLocalTheta = 1e12;
  config.local_window = config.sliding_window;
  config.sliding_window = 0;
  const Result<uint32_t> every =
      parameters.count("attention.sliding_window_pattern", kMaxGlobalEvery, kGlobalEvery);
  if (!every) return every.error();
  config.global_every = *every;
  const Result<double> theta = parameters.number("rope.freq_base_swa", 1.0, kMaxLocalTheta, kLocalTheta);
  if (!theta) return theta.error();
  config.local_rope_theta = *theta;
  return {};
}

// The gains of norms in a GGUF file are what values are multiplied by, which is one more than in the original
// checkpoints.
DecoderSpec gemma3_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.embedding.scale = std::sqrt(static_cast<float>(config.hidden_size));
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  spec.ropes.push_back(rope_spec(split_pairs(config), config.local_rope_theta));
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
