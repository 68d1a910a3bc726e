// A llama, or a model that differs from one in its heads, that was not trained: the metadata and tensors of a
// file of these sizes, with random values. Its logits are finite and its text is noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/tensor.h"
#include "runner/synth/gguf_writer.h"

namespace runnel {

struct LlamaSizes {
  uint32_t num_layers;
  uint32_t hidden_size;
  uint32_t num_heads;
  uint32_t num_kv_heads;
  uint32_t head_dim;
  uint32_t ffn_size;
  uint32_t vocab_size;
  uint32_t context_length;
  float rope_theta;
  bool ties_embedding;  // the output matrix is the embedding
  uint32_t sliding_window = 0;
  std::string_view architecture = "llama";
  bool has_head_norms = false;  // of each query head and key head
  float rms_epsilon = 1e-5f;
};

struct RandomTensor {
  std::string name;
  std::vector<uint64_t> dims;  // columns first; a vector has one
  TensorType type;

  uint64_t num_weights() const;
  uint64_t num_bytes() const { return num_weights() / block_weights(type) * block_bytes(type); }
};

GgufMetadata llama_metadata(const LlamaSizes& sizes);
// In the order of real files.
std::vector<RandomTensor> llama_tensors(const LlamaSizes& sizes, TensorType embedding_type,
                                        TensorType matrix_type);

// Fills whole blocks of the tensor, which are all of it or its next part. A product with such a matrix
// preserves the size of its input; gains lie around 1.
void fill_randomly(const RandomTensor& tensor, std::mt19937_64& random, std::span<std::byte> out);

}  // namespace runnel
