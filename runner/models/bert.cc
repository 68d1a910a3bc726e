#include "runner/models/bert.h"

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

// hidden = norm(hidden + project).
void norm_the_sum(ProjectSpec& project, const NormSpec& norm) {
  project.norm = norm;
  project.norms_sum = true;
}

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  const uint64_t hidden = config.hidden_size;
  LayerSpec layer{.index = index,
                  .attention = tensors.attention(),
                  .qkv = tensors.qkv(NormSpec{}),
                  .attention_output = tensors.attention_output(),
                  .ffn = {.norm = {},
                          .width = config.ffn_size,
                          .gate_up = loader.matrix({tensors.matrix("ffn_up", config.ffn_size)}, hidden),
                          .has_gate = false,
                          .nonlinearity = Nonlinearity::kGeluByError,
                          .bias = tensors.bias("ffn_up", config.ffn_size)},
                  .ffn_output = tensors.ffn_output()};
  layer.attention.sees_ahead = true;
  layer.qkv.bias = tensors.qkv_bias();
  layer.attention_output.bias = tensors.bias("attn_output", hidden);
  layer.ffn_output.bias = tensors.bias("ffn_down", hidden);
  norm_the_sum(layer.attention_output, tensors.layer_norm("attn_output_norm"));
  norm_the_sum(layer.ffn_output, tensors.layer_norm("layer_output_norm"));
  return layer;
}

// With a gate and without biases.
LayerSpec nomic_layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  LayerTensors tensors(index, config, loader);
  const uint64_t qkv_rows = tensors.query_rows() + 2 * tensors.kv_rows();
  LayerSpec layer{.index = index,
                  .attention = tensors.attention(),
                  .qkv = {.norm = {},
                          .weight = loader.matrix({tensors.matrix("attn_qkv", qkv_rows)}, config.hidden_size),
                          .bias = {},
                          .rope = 0},
                  .attention_output = tensors.attention_output(),
                  .ffn = tensors.ffn(NormSpec{}),
                  .ffn_output = tensors.ffn_output()};
  layer.attention.sees_ahead = true;
  norm_the_sum(layer.attention_output, tensors.layer_norm("attn_output_norm"));
  norm_the_sum(layer.ffn_output, tensors.layer_norm("layer_output_norm"));
  return layer;
}

// Everything but positions and layers.
DecoderSpec encoder_spec(const ModelConfig& config, WeightLoader& loader) {
  const std::string types = "token_types.weight";
  DecoderSpec spec{.hidden_size = config.hidden_size, .embedding = {}, .ropes = {}, .layers = {}, .head = {}};
  spec.embedding = {.table = loader.matrix({{"token_embd.weight", config.vocab_size}}, config.hidden_size),
                    .types = loader.matrix({{types, loader.rows_of(types)}}, config.hidden_size),
                    .num_types = static_cast<uint32_t>(loader.rows_of(types)),
                    .norm = {.gain = loader.vector("token_embd_norm.weight", config.hidden_size),
                             .epsilon = config.norm_epsilon,
                             .kind = NormKind::kLayer,
                             .bias = loader.vector("token_embd_norm.bias", config.hidden_size)}};
  // Nothing is drawn. The states are those of the last layer, which ends with a norm.
  spec.head = {.norm = {}, .weight = spec.embedding.table, .vocab_size = config.vocab_size};
  return spec;
}

ClassifierSpec classifier_spec(const ModelConfig& config, WeightLoader& loader) {
  const std::string output = "cls.output.weight";
  if (!loader.has(output)) return {};
  if (const uint64_t labels = loader.rows_of(output); labels != 1) {
    loader.refuse("has a classification head with " + std::to_string(labels) +
                  " labels; only rerankers, which have one, are supported");
    return {};
  }
  return {.dense = loader.values_of_matrix("cls.weight", config.hidden_size, config.hidden_size),
          .dense_bias = loader.values("cls.bias", config.hidden_size),
          .output = loader.values_of_matrix(output, 1, config.hidden_size),
          .output_bias = loader.values("cls.output.bias", 1)};
}

}  // namespace

Result<void> read_bert(const HyperParameters&, ModelConfig& config) {
  config.rotary_dim = 0;  // positions are learned
  config.is_encoder = true;
  return {};
}

Result<void> read_nomic_bert(const HyperParameters&, ModelConfig& config) {
  config.is_encoder = true;
  return {};
}

DecoderSpec bert_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = encoder_spec(config, loader);
  spec.embedding.positions =
      loader.matrix({{"position_embd.weight", config.context_length}}, config.hidden_size);
  spec.ropes.push_back({.pairs = {0, false}, .frequencies = {}});
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  spec.classifier = classifier_spec(config, loader);
  return spec;
}

DecoderSpec nomic_bert_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = encoder_spec(config, loader);
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(nomic_layer_spec(index, config, loader));
  return spec;
}

}  // namespace runnel
