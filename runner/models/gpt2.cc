#include "runner/models/gpt2.h"

#include "runner/models/layer_tensors.h"

namespace runnel {
namespace {

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  const uint64_t hidden = config.hidden_size;
  const uint64_t qkv_rows = tensors.query_rows() + 2 * tensors.kv_rows();
  LayerSpec layer{.index = index,
                  .attention = tensors.attention(),
                  .qkv = {.norm = tensors.layer_norm("attn_norm"),
                          .weight = loader.matrix({tensors.matrix("attn_qkv", qkv_rows)}, hidden),
                          .bias = tensors.bias("attn_qkv", qkv_rows),
                          .rope = 0},
                  .attention_output = tensors.attention_output(),
                  .ffn = {.norm = tensors.layer_norm("ffn_norm"),
                          .width = config.ffn_size,
                          .gate_up = loader.matrix({tensors.matrix("ffn_up", config.ffn_size)}, hidden),
                          .has_gate = false,
                          .nonlinearity = Nonlinearity::kGelu,
                          .bias = tensors.bias("ffn_up", config.ffn_size)},
                  .ffn_output = tensors.ffn_output()};
  layer.attention_output.bias = tensors.bias("attn_output", hidden);
  layer.ffn_output.bias = tensors.bias("ffn_down", hidden);
  return layer;
}

}  // namespace

Result<void> read_gpt2(const HyperParameters&, ModelConfig& config) {
  config.rotary_dim = 0;  // positions are learned
  return {};
}

DecoderSpec gpt2_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.embedding.positions =
      loader.matrix({{"position_embd.weight", config.context_length}}, config.hidden_size);
  spec.ropes.push_back({.pairs = {0, false}, .frequencies = {}});
  spec.head.norm.kind = NormKind::kLayer;
  spec.head.norm.bias = loader.vector("output_norm.bias", config.hidden_size);
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
