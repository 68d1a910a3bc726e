// A decoder as data: what each of its layers computes, and with which weights. A function for each
// architecture makes one from a model file (runner/models), Decoder runs it, and a backend sees all of it
// before it computes any of it (Backend::prepare).
//
// A variant of an operation is a field of its struct here. Adding one touches that struct, the two backends
// and their reference; docs/adding-a-model.md shows how.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/attention_shape.h"
#include "runner/result.h"

namespace runnel {

// A weight that a backend has taken.
struct WeightHandle {
  int32_t index = -1;  // -1: none
  explicit operator bool() const { return index >= 0; }
};

// y = x / sqrt(mean(x^2) + epsilon) * gain.
struct NormSpec {
  WeightHandle gain;  // (width)
  float epsilon;
};

// hidden = table[token].
struct EmbeddingSpec {
  WeightHandle table;  // (vocab, hidden)
};

// The norm of hidden, multiplied by the rows of queries, keys and values; queries and keys are rotated, keys
// and values stored.
struct QkvSpec {
  NormSpec norm;
  WeightHandle weight;  // (heads + 2 kv heads, hidden): heads of head_dim rows
  WeightHandle bias;    // as many; or none
  Rope rope;
};

// What a project operation multiplies.
enum class ProjectInput { kAttended, kGated };

// hidden = hidden + (weight * input + bias).
struct ProjectSpec {
  ProjectInput input;
  WeightHandle weight;  // (hidden, width of the input)
  WeightHandle bias;    // (hidden), or none
};

// gated = silu(gate * y) x (up * y), y being the norm of hidden.
struct FfnSpec {
  NormSpec norm;
  uint32_t width;        // of gate, of up and of the result
  WeightHandle gate_up;  // (2 width, hidden): gate's rows, then up's
};

struct LayerSpec {
  uint32_t index;  // of its K and V in the cache
  AttentionShape attention;
  QkvSpec qkv;
  ProjectSpec attention_output;
  FfnSpec ffn;
  ProjectSpec ffn_output;
};

// logits = weight * norm of hidden.
struct HeadSpec {
  NormSpec norm;
  WeightHandle weight;  // (vocab, hidden)
  uint32_t vocab_size;
};

struct DecoderSpec {
  uint32_t hidden_size;  // width of the residual stream
  EmbeddingSpec embedding;
  std::vector<LayerSpec> layers;
  HeadSpec head;
};

// The widths of what flows between the operations, of which a backend keeps one of each for all layers.
struct DecoderWidths {
  uint32_t hidden;
  uint32_t qkv;       // queries, then keys, then values, of all heads
  uint32_t attended;  // of all heads of queries
  uint32_t gated;
};

// Fails with kBadModel, naming the layer, where a layer's widths are not those of the first one.
Result<DecoderWidths> widths_of(const DecoderSpec& spec);

}  // namespace runnel
