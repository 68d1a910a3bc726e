#include "runner/models/layer_tensors.h"

#include <cmath>

#include "runner/models/kv_groups.h"

namespace runnel {

LayerTensors::LayerTensors(uint32_t index, const ModelConfig& config, WeightLoader& loader)
    : index_(index), prefix_("blk." + std::to_string(index) + "."), config_(config), loader_(loader) {}

LayerSpec LayerTensors::usual_layer() {
  return {.index = index_,
          .attention = attention(),
          .qkv = qkv(),
          .attention_output = attention_output(),
          .ffn = ffn(),
          .ffn_output = ffn_output()};
}

AttentionShape LayerTensors::attention() const {
  return {config_.num_heads, config_.num_kv_heads, config_.head_dim,
          1.0f / std::sqrt(static_cast<float>(config_.head_dim)), layer_window(config_, index_)};
}

QkvSpec LayerTensors::qkv() {
  return {.norm = norm("attn_norm"),
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

ProjectSpec LayerTensors::attention_output() {
  return {.input = ProjectInput::kAttended,
          .weight = loader_.matrix({matrix("attn_output", config_.hidden_size)}, query_rows()),
          .bias = {}};
}

FfnSpec LayerTensors::ffn() {
  return {
      .norm = norm("ffn_norm"),
      .width = config_.ffn_size,
      .gate_up = loader_.matrix({matrix("ffn_gate", config_.ffn_size), matrix("ffn_up", config_.ffn_size)},
                                config_.hidden_size)};
}

ProjectSpec LayerTensors::ffn_output() {
  return {.input = ProjectInput::kGated,
          .weight = loader_.matrix({matrix("ffn_down", config_.hidden_size)}, config_.ffn_size),
          .bias = {}};
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
  spec.head = {
      .norm = {.gain = loader.vector("output_norm.weight", config.hidden_size),
               .epsilon = config.norm_epsilon},
      .weight = loader.has(output.name) ? loader.matrix({output}, config.hidden_size) : spec.embedding.table,
      .vocab_size = config.vocab_size};
  return spec;
}

}  // namespace runnel
