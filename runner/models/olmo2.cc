#include "runner/models/olmo2.h"

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

// Norms follow the products of a layer, and none precedes them.
LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  LayerSpec layer{.index = index,
                  .attention = tensors.attention(),
                  .qkv = tensors.qkv({}),
                  .attention_output = tensors.attention_output(),
                  .ffn = tensors.ffn({}),
                  .ffn_output = tensors.ffn_output()};
  tensors.add_norms_of_all_heads(layer.qkv);
  layer.attention_output.norm = tensors.norm("post_attention_norm");
  layer.ffn_output.norm = tensors.norm("post_ffw_norm");
  return layer;
}

}  // namespace

Result<void> read_olmo2(const HyperParameters& parameters, ModelConfig& config) {
  if (config.sliding_window == 0) return {};
  return parameters.error("has " + parameters.key("attention.sliding_window") +
                          ", as OLMo 3 has; it is not supported for this architecture");
}

DecoderSpec olmo2_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
