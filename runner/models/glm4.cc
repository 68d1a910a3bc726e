#include "runner/models/glm4.h"

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  LayerSpec layer{.index = index,
                  .attention = tensors.attention(),
                  .qkv = tensors.qkv(),
                  .attention_output = tensors.attention_output(),
                  .ffn = tensors.fused_ffn(),
                  .ffn_output = tensors.ffn_output()};
  if (tensors.has_bias("attn_q")) layer.qkv.bias = tensors.qkv_bias();
  layer.attention_output.norm = tensors.norm("post_attention_norm");
  layer.ffn_output.norm = tensors.norm("post_ffw_norm");
  return layer;
}

}  // namespace

Result<void> read_glm4(const HyperParameters& parameters, ModelConfig&) {
  constexpr const char* kSections = "rope.dimension_sections";
  if (parameters.has(kSections))
    return parameters.error("has " + parameters.key(kSections) +
                            ", as models of images have; they are not supported");
  return {};
}

DecoderSpec glm4_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(usual_rope(neighbour_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
