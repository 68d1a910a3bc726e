#include "runner/synth/random_llama.h"

#include <cmath>
#include <cstring>

#include "runner/synth/random_weights.h"

namespace runnel {

uint64_t RandomTensor::num_weights() const {
  uint64_t product = 1;
  for (const uint64_t size : dims) product *= size;
  return product;
}

GgufMetadata llama_metadata(const LlamaSizes& sizes) {
  const std::string prefix = std::string(sizes.architecture) + ".";
  GgufMetadata metadata;
  metadata.text("general.architecture", sizes.architecture);
  metadata.u32(prefix + "block_count", sizes.num_layers);
  metadata.u32(prefix + "context_length", sizes.context_length);
  metadata.u32(prefix + "embedding_length", sizes.hidden_size);
  metadata.u32(prefix + "feed_forward_length", sizes.ffn_size);
  metadata.u32(prefix + "attention.head_count", sizes.num_heads);
  metadata.u32(prefix + "attention.head_count_kv", sizes.num_kv_heads);
  // Without these, heads share the hidden size evenly.
  if (sizes.num_heads * sizes.head_dim != sizes.hidden_size) {
    metadata.u32(prefix + "attention.key_length", sizes.head_dim);
    metadata.u32(prefix + "attention.value_length", sizes.head_dim);
  }
  metadata.f32(prefix + "attention.layer_norm_rms_epsilon", sizes.rms_epsilon);
  metadata.f32(prefix + "rope.freq_base", sizes.rope_theta);
  if (sizes.sliding_window != 0) metadata.u32(prefix + "attention.sliding_window", sizes.sliding_window);
  return metadata;
}

std::vector<RandomTensor> llama_tensors(const LlamaSizes& sizes, TensorType embedding_type,
                                        TensorType matrix_type) {
  const uint64_t hidden = sizes.hidden_size;
  const uint64_t query_rows = uint64_t{sizes.num_heads} * sizes.head_dim;
  const uint64_t kv_rows = uint64_t{sizes.num_kv_heads} * sizes.head_dim;
  std::vector<RandomTensor> tensors;
  const auto gains = [&](const std::string& name, uint64_t count) {
    tensors.push_back({name, {count}, TensorType::kF32});
  };
  const auto matrix = [&](const std::string& name, uint64_t rows, uint64_t columns) {
    tensors.push_back({name, {columns, rows}, matrix_type});
  };
  tensors.push_back({"token_embd.weight", {hidden, sizes.vocab_size}, embedding_type});
  for (uint32_t layer = 0; layer < sizes.num_layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    gains(block + "attn_norm.weight", hidden);
    matrix(block + "attn_q.weight", query_rows, hidden);
    matrix(block + "attn_k.weight", kv_rows, hidden);
    matrix(block + "attn_v.weight", kv_rows, hidden);
    if (sizes.has_head_norms) {
      gains(block + "attn_q_norm.weight", sizes.head_dim);
      gains(block + "attn_k_norm.weight", sizes.head_dim);
    }
    matrix(block + "attn_output.weight", hidden, query_rows);
    gains(block + "ffn_norm.weight", hidden);
    matrix(block + "ffn_gate.weight", sizes.ffn_size, hidden);
    matrix(block + "ffn_up.weight", sizes.ffn_size, hidden);
    matrix(block + "ffn_down.weight", hidden, sizes.ffn_size);
  }
  gains("output_norm.weight", hidden);
  if (!sizes.ties_embedding) matrix("output.weight", sizes.vocab_size, hidden);
  return tensors;
}

void fill_randomly(const RandomTensor& tensor, std::mt19937_64& random, std::span<std::byte> out) {
  const bool is_gain = tensor.dims.size() == 1;
  const float rms = is_gain ? 0.25f : 1.0f / std::sqrt(static_cast<float>(tensor.dims[0]));
  fill_with_random_weights(tensor.type, rms, random, out);
  if (!is_gain) return;
  for (size_t i = 0; i < out.size(); i += sizeof(float)) {
    float gain;
    std::memcpy(&gain, out.data() + i, sizeof(float));
    gain += 1.0f;
    std::memcpy(out.data() + i, &gain, sizeof(float));
  }
}

}  // namespace runnel
