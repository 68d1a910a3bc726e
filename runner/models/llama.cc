#include "runner/models/llama.h"

#include <cmath>
#include <string>

namespace runnel {
namespace {

LayerSpec layer_spec(uint32_t index, const ModelConfig& config, WeightLoader& loader) {
  const uint64_t hidden = config.hidden_size;
  const uint64_t query_rows = uint64_t{config.num_heads} * config.head_dim;
  const uint64_t kv_rows = uint64_t{config.num_kv_heads} * config.head_dim;
  const std::string block = "blk." + std::to_string(index) + ".";
  const auto norm = [&](const char* name) {
    return NormSpec{loader.vector(block + name, hidden), config.norm_epsilon};
  };
  const auto matrix = [&](const char* name, uint64_t rows) { return MatrixSpec{block + name, rows}; };
  return {
      .index = index,
      .attention = {config.num_heads, config.num_kv_heads, config.head_dim,
                    1.0f / std::sqrt(static_cast<float>(config.head_dim)), config.sliding_window},
      .qkv = {.norm = norm("attn_norm.weight"),
              .weight = loader.matrix({matrix("attn_q.weight", query_rows),  //
                                       matrix("attn_k.weight", kv_rows),     //
                                       matrix("attn_v.weight", kv_rows)},
                                      hidden),
              .bias = loader.has(block + "attn_q.bias") ? loader.vector({{block + "attn_q.bias", query_rows},
                                                                         {block + "attn_k.bias", kv_rows},
                                                                         {block + "attn_v.bias", kv_rows}})
                                                        : WeightHandle{},
              // GGUF stores the rows of this architecture's queries and keys so that a pair's two values are
              // neighbours.
              .rope = {config.rotary_dim, config.rope_theta, /*interleaved=*/true}},
      .attention_output = {.input = ProjectInput::kAttended,
                           .weight = loader.matrix({matrix("attn_output.weight", hidden)}, query_rows),
                           .bias = loader.has(block + "attn_output.bias")
                                       ? loader.vector(block + "attn_output.bias", hidden)
                                       : WeightHandle{}},
      .ffn = {.norm = norm("ffn_norm.weight"),
              .width = config.ffn_size,
              .gate_up = loader.matrix(
                  {matrix("ffn_gate.weight", config.ffn_size), matrix("ffn_up.weight", config.ffn_size)},
                  hidden)},
      .ffn_output = {.input = ProjectInput::kGated,
                     .weight = loader.matrix({matrix("ffn_down.weight", hidden)}, config.ffn_size),
                     .bias = {}},
  };
}

}  // namespace

DecoderSpec llama_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec{.hidden_size = config.hidden_size, .embedding = {}, .layers = {}, .head = {}};
  const MatrixSpec output{"output.weight", config.vocab_size};
  spec.embedding.table = loader.matrix({{"token_embd.weight", config.vocab_size}}, config.hidden_size);
  for (uint32_t index = 0; index < config.num_layers; ++index)
    spec.layers.push_back(layer_spec(index, config, loader));
  spec.head = {
      .norm = {loader.vector("output_norm.weight", config.hidden_size), config.norm_epsilon},
      // The embedding again where the file ties them.
      .weight = loader.has(output.name) ? loader.matrix({output}, config.hidden_size) : spec.embedding.table,
      .vocab_size = config.vocab_size};
  return spec;
}

}  // namespace runnel
