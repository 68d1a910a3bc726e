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
#include "runner/nonlinearity.h"
#include "runner/result.h"

namespace runnel {

// A weight that a backend has taken.
struct WeightHandle {
  int32_t index = -1;  // -1: none
  explicit operator bool() const { return index >= 0; }
};

// kRms:   y = x / sqrt(mean(x^2) + epsilon) * gain.
// kLayer: y = (x - mean(x)) / sqrt(variance(x) + epsilon) * gain + bias.
enum class NormKind : uint8_t { kRms, kLayer };

struct NormSpec {
  WeightHandle gain;  // (width)
  float epsilon = 0.0f;
  NormKind kind = NormKind::kRms;
  WeightHandle bias = {};  // (width), of kLayer

  // Where a norm may be missing: whether there is one.
  explicit operator bool() const { return static_cast<bool>(gain); }
};

// hidden = scale * table[token] + positions[position].
struct EmbeddingSpec {
  WeightHandle table;  // (vocab, hidden)
  float scale = 1.0f;
  WeightHandle positions = {};  // (positions, hidden); or none
};

// One way in which heads are rotated: at a position p, pair i turns by p * frequencies[i], and what comes out
// is magnitude times as long.
struct RopeSpec {
  Rope pairs;
  std::vector<double>
      frequencies;  // (rotary_dim / 2) radians a position; positions times them stay below 2^20
  double magnitude = 1.0;
};

// The norm of hidden, multiplied by the rows of queries, keys and values; queries and keys are rotated, keys
// and values stored.
struct QkvSpec {
  NormSpec norm;
  WeightHandle weight;  // (heads + 2 kv heads, hidden): heads of head_dim rows
  WeightHandle bias;    // as many; or none
  uint32_t rope;        // index of DecoderSpec::ropes
  // Of each head of queries and of keys, before it is rotated: kRms, or none.
  NormSpec query_norm = {};
  NormSpec key_norm = {};
};

// What a project operation multiplies.
enum class ProjectInput { kAttended, kGated };

inline constexpr uint32_t kMaxExperts = 1024;
inline constexpr uint32_t kMaxUsedExperts = 32;

// A feed-forward part of which each row uses some: its router's num_used largest, of equal ones the first.
// At most kMaxUsedExperts of at most kMaxExperts.
struct ExpertsSpec {
  uint32_t num_experts = 0;  // 0: there is one part, which all rows use
  uint32_t num_used = 0;
  WeightHandle router = {};  // (num_experts, hidden)
};

// hidden = hidden + norm(weight * input + bias), the norm being that of a ProjectSpec which has one.
struct ProjectSpec {
  ProjectInput input;
  WeightHandle weight;  // (hidden, width of the input)
  WeightHandle bias;    // (hidden), or none
  NormSpec norm = {};   // kRms, or none
  // Of kGated: weight is (num_experts * hidden, width), and what the experts of a row give is added up by
  // their weights. No bias and no norm.
  ExpertsSpec experts = {};
};

// gated = f(gate * y) x (up * y), y being the norm of hidden; or f(up * y) without a gate.
struct FfnSpec {
  NormSpec norm;
  uint32_t width;        // of gate, of up and of the result
  WeightHandle gate_up;  // (2 width, hidden): gate's rows, then up's; without a gate (width, hidden)
  bool has_gate = true;
  Nonlinearity nonlinearity = Nonlinearity::kSilu;
  WeightHandle bias = {};  // (width), or none; where there is no gate
  // gate_up is (2 num_experts * width, hidden), gates of all experts first; gated has the rows of the experts
  // that a row uses, one behind the other.
  ExpertsSpec experts = {};
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
  std::vector<RopeSpec> ropes;  // that layers refer to
  std::vector<LayerSpec> layers;
  HeadSpec head;
};

// The widths of what flows between the operations, of which a backend keeps one of each for all layers.
struct DecoderWidths {
  uint32_t hidden;
  uint32_t qkv;          // queries, then keys, then values, of all heads
  uint32_t attended;     // of all heads of queries
  uint32_t gated;        // of one expert, if there are several
  ExpertsSpec experts;   // num_experts is 0 where there are none
  bool has_output_norm;  // some layer has a norm behind a product
};

// Fails with kBadModel, naming the layer, where a layer's widths are not those of the first one.
Result<DecoderWidths> widths_of(const DecoderSpec& spec);

}  // namespace runnel
