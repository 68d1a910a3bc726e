#include "runner/models/gemma.h"

#include <cmath>
#include <tuple>

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"
#include "runner/models/windows.h"

namespace runnel {
namespace {

// Indices into DecoderSpec::ropes of Gemma 3.
enum : uint32_t { kGlobalRope, kLocalRope };

// The largest model of each family scales queries as if each head had width hidden_size / num_heads. The file
// does not say so, so that model is recognised by its number of layers.
constexpr uint32_t kLayersOfLargestGemma2 = 46;
constexpr uint32_t kLayersOfLargestGemma3 = 62;

// What the layers of both have in common.
LayerSpec layer_spec(LayerTensors& tensors, const ModelConfig& config, uint32_t layers_of_largest) {
  LayerSpec layer = tensors.usual_layer();
  if (config.num_layers == layers_of_largest) {
    layer.attention.scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
  }
  layer.attention_output.norm = tensors.norm("post_attention_norm");
  layer.ffn.nonlinearity = Nonlinearity::kGelu;
  layer.ffn_output.norm = tensors.norm("post_ffw_norm");
  return layer;
}

// The gains of norms in a GGUF file are what values are multiplied by, which is one more than in the original
// checkpoints.
DecoderSpec decoder_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.embedding.scale = std::sqrt(static_cast<float>(config.hidden_size));
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  return spec;
}

}  // namespace

Result<void> read_gemma2(const HyperParameters& parameters, ModelConfig& config) {
  constexpr uint32_t kUsualWindow = 4096;  // of files that do not say it
  constexpr double kMinCap = 1e-3;
  constexpr double kMaxCap = 1e9;
  for (const auto& [name, usual, field] :
       {std::tuple("attn_logit_softcapping", 50.0, &config.attention_softcap),
        std::tuple("final_logit_softcapping", 30.0, &config.logit_softcap)}) {
    // 0 means none.
    const Result<double> cap = parameters.number(name, 0.0, kMaxCap, usual);
    const Result<double> checked =
        cap && *cap == 0.0 ? cap : parameters.number(name, kMinCap, kMaxCap, usual);
    if (!checked) return checked.error();
    *field = *checked;
  }
  if (!parameters.has("attention.sliding_window")) config.sliding_window = kUsualWindow;
  config.local_rope_theta = config.rope_theta;
  return read_mixed_windows(parameters, 2, config);
}

Result<void> read_gemma3(const HyperParameters& parameters, ModelConfig& config) {
  constexpr double kLocalTheta = 10'000.0;
  constexpr double kMaxLocalTheta = 1e12;
  const Result<double> theta = parameters.number("rope.freq_base_swa", 1.0, kMaxLocalTheta, kLocalTheta);
  if (!theta) return theta.error();
  config.local_rope_theta = *theta;
  return read_mixed_windows(parameters, 6, config);
}

DecoderSpec gemma2_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = decoder_spec(config, loader);
  spec.head.softcap = static_cast<float>(config.logit_softcap);
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    LayerTensors tensors(index, config, loader);
    spec.layers.push_back(layer_spec(tensors, config, kLayersOfLargestGemma2));
    spec.layers.back().attention.softcap = static_cast<float>(config.attention_softcap);
  }
  return spec;
}

DecoderSpec gemma3_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = decoder_spec(config, loader);
  spec.ropes.push_back(rope_spec(split_pairs(config), config.local_rope_theta));
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    LayerTensors tensors(index, config, loader);
    LayerSpec layer = layer_spec(tensors, config, kLayersOfLargestGemma3);
    tensors.add_head_norms(layer.qkv);
    layer.qkv.rope = layer.attention.window == 0 ? kGlobalRope : kLocalRope;
    spec.layers.push_back(layer);
  }
  return spec;
}

}  // namespace runnel
