#include "runner/models/llama.h"

#include <vector>

#include "runner/models/experts.h"
#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

constexpr const char* kRopeFactors = "rope_freqs.weight";  // one factor for each pair, from Llama 3.1 on

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  LayerSpec layer = tensors.usual_layer();
  // InternLM has these biases.
  if (tensors.has_bias("attn_q")) layer.qkv.bias = tensors.qkv_bias();
  if (tensors.has_bias("attn_output"))
    layer.attention_output.bias = tensors.bias("attn_output", config.hidden_size);
  return layer;
}

}  // namespace

Result<void> read_llama(const HyperParameters& parameters, ModelConfig& config) {
  const Result<uint32_t> num_experts = parameters.count_or_none("expert_count", kMaxExperts);
  if (!num_experts) return num_experts.error();
  if (*num_experts == 0) return {};
  return read_experts(parameters, "feed_forward_length", config);
}

DecoderSpec llama_spec(const ModelConfig& config, WeightLoader& loader) {
  const Rope pairs = neighbour_pairs(config);
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(loader.has(kRopeFactors)
                           ? rope_spec(pairs, config.rope_theta, rope_factors(kRopeFactors, config, loader))
                           : usual_rope(pairs, config));
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
