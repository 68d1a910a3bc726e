#include "runner/models/layer_tensors.h"

#include <cmath>

#include "runner/models/kv_groups.h"

namespace runnel {

LayerTensors::LayerTensors(uint32_t index, const ModelConfig& config, WeightLoader& loader)
    : index_(index), prefix_("blk." + std::to_string(index) + "."), config_(config), loader_(loader) {}

LayerSpec LayerTensors::usual_layer() {
  LayerSpec layer{.index = index_,
                  .attention = attention(),
                  .qkv = qkv(),
                  .attention_output = attention_output(),
                  .ffn = ffn(),
                  .ffn_output = {}};
  layer.ffn_output = ffn_output(layer.ffn.experts);
  return layer;
}

AttentionShape LayerTensors::attention() const {
  return {config_.num_heads, config_.num_kv_heads, config_.head_dim,
          1.0f / std::sqrt(static_cast<float>(config_.head_dim)), layer_window(config_, index_)};
}

QkvSpec LayerTensors::qkv(const NormSpec& norm) {
  return {.norm = norm,
          .weight = loader_.matrix(
              {matrix("attn_q", query_rows()), matrix("attn_k", kv_rows()), matrix("attn_v", kv_rows())},
              config_.hidden_size),
          .bias = {},
          .rope = 0};
}

WeightHandle LayerTensors::qkv_bias() {
  return loader_.vector({{name_of("attn_q", "bias"), query_rows()},
                         {name_of("attn_k", "bias"), kv_rows()},
                         {name_of("attn_v", "bias"), kv_rows()}});
}

void LayerTensors::add_head_norms(QkvSpec& qkv) {
  qkv.query_norm = norm("attn_q_norm", config_.head_dim);
  qkv.key_norm = norm("attn_k_norm", config_.head_dim);
}

void LayerTensors::add_norms_of_all_heads(QkvSpec& qkv) {
  qkv.query_norm = norm("attn_q_norm", query_rows());
  qkv.key_norm = norm("attn_k_norm", kv_rows());
  qkv.norms_heads_together = true;
}

ProjectSpec LayerTensors::attention_output() {
  return {.input = ProjectInput::kAttended,
          .weight = loader_.matrix({matrix("attn_output", config_.hidden_size)}, query_rows()),
          .bias = {}};
}

FfnSpec LayerTensors::ffn(const NormSpec& norm) {
  if (config_.num_experts != 0) return ffn_of_experts(norm);
  return {
      .norm = norm,
      .width = config_.ffn_size,
      .gate_up = loader_.matrix({matrix("ffn_gate", config_.ffn_size), matrix("ffn_up", config_.ffn_size)},
                                config_.hidden_size)};
}

FfnSpec LayerTensors::fused_ffn() {
  const uint64_t width = config_.ffn_size;
  MatrixSpec gate = matrix("ffn_up", width);
  MatrixSpec up = gate;
  up.first_row = width;
  gate.rows_of_all = up.rows_of_all = 2 * width;
  return {.norm = norm("ffn_norm"),
          .width = config_.ffn_size,
          .gate_up = loader_.matrix({gate, up}, config_.hidden_size)};
}

FfnSpec LayerTensors::ffn_of_experts(const NormSpec& norm) {
  const uint32_t width = config_.expert_ffn_size;
  return {.norm = norm,
          .width = width,
          .gate_up = loader_.experts({matrix("ffn_gate_exps", width), matrix("ffn_up_exps", width)},
                                     config_.hidden_size, config_.num_experts),
          .experts = {
              .num_experts = config_.num_experts,
              .num_used = config_.num_used_experts,
              .router = loader_.matrix({matrix("ffn_gate_inp", config_.num_experts)}, config_.hidden_size)}};
}

ProjectSpec LayerTensors::ffn_output(const ExpertsSpec& experts) {
  if (experts.num_experts != 0) {
    return {.input = ProjectInput::kGated,
            .weight = loader_.experts({matrix("ffn_down_exps", config_.hidden_size)}, config_.expert_ffn_size,
                                      config_.num_experts),
            .bias = {},
            .experts = experts};
  }
  return {.input = ProjectInput::kGated,
          .weight = loader_.matrix({matrix("ffn_down", config_.hidden_size)}, config_.ffn_size),
          .bias = {}};
}

WeightHandle LayerTensors::expert_biases(std::initializer_list<const char*> names, uint64_t size) {
  std::vector<VectorSpec> stacked;
  for (const char* name : names)
    stacked.push_back({.name = name_of(name, "bias"), .size = size, .num_experts = config_.num_experts});
  return loader_.vector(stacked);
}

NormSpec LayerTensors::layer_norm(const std::string& name) {
  NormSpec spec = norm(name);
  spec.kind = NormKind::kLayer;
  spec.bias = bias(name, config_.hidden_size);
  return spec;
}

DecoderSpec usual_decoder(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec{.hidden_size = config.hidden_size, .embedding = {}, .ropes = {}, .layers = {}, .head = {}};
  const MatrixSpec output{"output.weight", config.vocab_size};
  spec.embedding.table = loader.matrix({{"token_embd.weight", config.vocab_size}}, config.hidden_size);
  const float divisor = config.logit_divisor == 0.0 ? 1.0f : static_cast<float>(config.logit_divisor);
  spec.head = {
      .norm = {.gain = loader.vector({{"output_norm.weight", config.hidden_size, divisor}}),
               .epsilon = config.norm_epsilon},
      .divisor = divisor,
      .weight = loader.has(output.name) ? loader.matrix({output}, config.hidden_size) : spec.embedding.table,
      .vocab_size = config.vocab_size};
  return spec;
}

}  // namespace runnel
