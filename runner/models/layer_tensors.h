// The tensors of a layer by the names that most architectures use, and the layer that most architectures
// have: root-mean-square norms before attention and feed-forward, separate matrices for queries, keys and
// values, and a gate with SiLU. An architecture starts from this layer and changes what differs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "runner/backend/decoder_spec.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

class LayerTensors {
 public:
  // config and loader must outlive this.
  LayerTensors(uint32_t index, const ModelConfig& config, WeightLoader& loader);

  // The whole layer. It uses the first rope of the model.
  LayerSpec usual_layer();

  // Parts of the layer, for architectures in which other parts differ.
  AttentionShape attention() const;
  QkvSpec qkv() { return qkv(norm("attn_norm")); }
  QkvSpec qkv(const NormSpec& norm);
  // The biases attn_q, attn_k and attn_v.
  WeightHandle qkv_bias();
  // Adds the norms of each head, attn_q_norm and attn_k_norm.
  void add_head_norms(QkvSpec& qkv);
  // Adds norms of the same names, of all heads together.
  void add_norms_of_all_heads(QkvSpec& qkv);
  ProjectSpec attention_output();
  // With experts if the model has them.
  FfnSpec ffn() { return ffn(norm("ffn_norm")); }
  FfnSpec ffn(const NormSpec& norm);
  // The tensor ffn_up has the rows of the gate, then those of the other factor.
  FfnSpec fused_ffn();
  // experts: those of the feed-forward part.
  ProjectSpec ffn_output(const ExpertsSpec& experts = {});

  // A norm of the hidden state, such as "attn_norm".
  NormSpec norm(const std::string& name) { return norm(name, config_.hidden_size); }
  // A norm with a bias, of kind kLayer.
  NormSpec layer_norm(const std::string& name);
  WeightHandle bias(const std::string& name, uint64_t size) {
    return loader_.vector(name_of(name, "bias"), size);
  }
  // The biases of all experts, (experts, size) of each name, one after the other.
  WeightHandle expert_biases(std::initializer_list<const char*> names, uint64_t size);
  WeightHandle vector(const std::string& name, uint64_t size) {
    return loader_.vector(name_of(name, "weight"), size);
  }
  bool has_bias(const std::string& name) const { return loader_.has(name_of(name, "bias")); }
  MatrixSpec matrix(const std::string& name, uint64_t rows) const { return {name_of(name, "weight"), rows}; }

  uint64_t query_rows() const { return uint64_t{config_.num_heads} * config_.head_dim; }
  uint64_t kv_rows() const { return uint64_t{config_.num_kv_heads} * config_.head_dim; }

 private:
  std::string name_of(const std::string& name, const char* kind) const { return prefix_ + name + "." + kind; }
  FfnSpec ffn_of_experts(const NormSpec& norm);
  NormSpec norm(const std::string& name, uint64_t size) {
    return {.gain = vector(name, size), .epsilon = config_.norm_epsilon};
  }

  const uint32_t index_;
  const std::string prefix_;  // "blk.3."
  const ModelConfig& config_;
  WeightLoader& loader_;
};

// The parts around the layers: the embedding, and the head, which multiplies by the embedding again if the
// file has no output matrix of its own.
DecoderSpec usual_decoder(const ModelConfig& config, WeightLoader& loader);

// The pairs (2i, 2i + 1). GGUF stores the rows of queries and keys of llama and of its relatives for them.
inline Rope neighbour_pairs(const ModelConfig& config) {
  return {config.rotary_dim, /*interleaved=*/true};
}

// The pairs (i, i + rotary_dim / 2).
inline Rope split_pairs(const ModelConfig& config) {
  return {config.rotary_dim, /*interleaved=*/false};
}

}  // namespace runnel
