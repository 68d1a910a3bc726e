#include "runner/models/qwen3.h"

#include "runner/models/experts.h"
#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {

Result<void> read_qwen3moe(const HyperParameters& parameters, ModelConfig& config) {
  return read_experts(parameters, "expert_feed_forward_length", config);
}

DecoderSpec qwen3_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    LayerTensors tensors(index, config, loader);
    spec.layers.push_back(tensors.usual_layer());
    tensors.add_head_norms(spec.layers.back().qkv);
  }
  return spec;
}

}  // namespace runnel
