#include "runner/models/gpt_oss.h"

#include "runner/models/experts.h"
#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"
#include "runner/models/windows.h"

namespace runnel {
namespace {

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  // GGUF's name of the norm says where it stands: after attention, before the experts.
  LayerSpec layer{.index = index,
                  .attention = tensors.attention(),
                  .sinks = tensors.vector("attn_sinks", config.num_heads),
                  .qkv = tensors.qkv(),
                  .attention_output = tensors.attention_output(),
                  .ffn = tensors.ffn(tensors.norm("post_attention_norm")),
                  .ffn_output = {}};
  layer.qkv.bias = tensors.qkv_bias();
  layer.attention_output.bias = tensors.bias("attn_output", config.hidden_size);
  layer.ffn.nonlinearity = Nonlinearity::kClampedSwish;
  layer.ffn.bias = tensors.expert_biases({"ffn_gate_exps", "ffn_up_exps"}, config.expert_ffn_size);
  layer.ffn.experts.router_bias = tensors.bias("ffn_gate_inp", config.num_experts);
  layer.ffn_output = tensors.ffn_output(layer.ffn.experts);
  layer.ffn_output.bias = tensors.expert_biases({"ffn_down_exps"}, config.hidden_size);
  return layer;
}

}  // namespace

Result<void> read_gpt_oss(const HyperParameters& parameters, ModelConfig& config) {
  config.local_rope_theta = config.rope_theta;
  // llama.cpp's files do not say it, and the published models have it (truncate false).
  config.yarn_keeps_fractions = true;
  if (const auto read = read_experts(parameters, "expert_feed_forward_length", config); !read) return read;
  return read_mixed_windows(parameters, /*usual_every=*/2, config);
}

DecoderSpec gpt_oss_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
