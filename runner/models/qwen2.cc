#include "runner/models/qwen2.h"

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {

DecoderSpec qwen2_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    LayerTensors tensors(index, config, loader);
    spec.layers.push_back(tensors.usual_layer());
    spec.layers.back().qkv.bias = tensors.qkv_bias();
  }
  return spec;
}

}  // namespace runnel
