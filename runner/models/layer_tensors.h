// The tensors of a layer under the names that most architectures give them, and the layer that most have:
// root- mean-square norms before attention and feed-forward part, matrices of their own for queries, keys and
// values, a gate by SiLU. An architecture takes it and changes what it does otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "runner/decoder_spec.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

class LayerTensors {
 public:
  // Both outlive this.
  LayerTensors(uint32_t index, const ModelConfig& config, WeightLoader& loader);

  // The whole layer; its rope is the model's first.
  LayerSpec usual_layer();

  // Parts of it, for architectures that have the others in another form.
  AttentionShape attention() const;
  QkvSpec qkv();
  // Biases of attn_q, attn_k and attn_v.
  WeightHandle qkv_bias();
  // Norms of each head, attn_q_norm and attn_k_norm.
  void add_head_norms(QkvSpec& qkv);
  ProjectSpec attention_output();
  FfnSpec ffn();
  ProjectSpec ffn_output();

  // A norm of the hidden state, "attn_norm" for one.
  NormSpec norm(const std::string& name) { return norm(name, config_.hidden_size); }
  // With a bias, as kLayer has one.
  NormSpec layer_norm(const std::string& name);
  WeightHandle bias(const std::string& name, uint64_t size) {
    return loader_.vector(name_of(name, "bias"), size);
  }
  bool has_bias(const std::string& name) const { return loader_.has(name_of(name, "bias")); }
  MatrixSpec matrix(const std::string& name, uint64_t rows) const { return {name_of(name, "weight"), rows}; }

  uint64_t query_rows() const { return uint64_t{config_.num_heads} * config_.head_dim; }
  uint64_t kv_rows() const { return uint64_t{config_.num_kv_heads} * config_.head_dim; }

 private:
  std::string name_of(const std::string& name, const char* kind) const { return prefix_ + name + "." + kind; }
  NormSpec norm(const std::string& name, uint64_t size) {
    return {.gain = loader_.vector(name_of(name, "weight"), size), .epsilon = config_.norm_epsilon};
  }

  const uint32_t index_;
  const std::string prefix_;  // "blk.3."
  const ModelConfig& config_;
  WeightLoader& loader_;
};

// What is around the layers: embedding, and a head that multiplies by the embedding again where the file has
// no output matrix of its own.
DecoderSpec usual_decoder(const ModelConfig& config, WeightLoader& loader);

// The pairs (i, i + rotary_dim / 2), which all architectures but llama have.
inline Rope split_pairs(const ModelConfig& config) {
  return {config.rotary_dim, /*interleaved=*/false};
}

}  // namespace runnel
