// A decoder as data: what each of its layers computes, and with which weights. For each architecture, a
// function makes it from a model file (runner/models). Decoder runs it, and a backend sees all of it before
// it computes (Backend::prepare).
//
// A variant of an operation is a field of its struct here. A new variant changes that struct, the two
// backends and their reference; docs/adding-a-model.md shows how.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/backend/attention_shape.h"
#include "runner/backend/nonlinearity.h"
#include "runner/result.h"

namespace runnel {

// A weight that a backend has loaded.
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
  WeightHandle bias = {};  // (width), for kLayer

  // Whether there is a norm, where a norm may be missing.
  explicit operator bool() const { return static_cast<bool>(gain); }
};

// hidden = norm(scale * table[token] + types[type] + positions[position]).
struct EmbeddingSpec {
  WeightHandle table;  // (vocab, hidden)
  float scale = 1.0f;
  WeightHandle types = {};  // (num_types, hidden), or none
  uint32_t num_types = 0;
  WeightHandle positions = {};  // (positions, hidden), or none
  NormSpec norm = {};           // kLayer, or none
};

// One way to rotate heads: at position p, pair i rotates by p * frequencies[i], and the result is multiplied
// by magnitude.
struct RopeSpec {
  Rope pairs;
  std::vector<double> frequencies;  // (rotary_dim / 2) radians a position; times any position below 2^20
  double magnitude = 1.0;
  // Replaces frequencies where no sequence has more than max_short_positions; 0: never.
  std::vector<double> short_frequencies = {};
  uint32_t max_short_positions = 0;
};

// The norm of hidden, or hidden itself, multiplied by the weights of queries, keys and values. Queries and
// keys are rotated; keys and values are stored.
struct QkvSpec {
  NormSpec norm;        // or none
  WeightHandle weight;  // (heads + 2 kv heads, hidden): head_dim rows for each head
  WeightHandle bias;    // one value for each row, or none
  uint32_t rope;        // index into DecoderSpec::ropes
  // Norms of queries and of keys, before rotation: kRms, or none. Of each head, or of all heads together.
  NormSpec query_norm = {};
  NormSpec key_norm = {};
  bool norms_heads_together = false;
};

// The input of a project operation.
enum class ProjectInput { kAttended, kGated };

inline constexpr uint32_t kMaxExperts = 1024;
inline constexpr uint32_t kMaxUsedExperts = 32;

// A feed-forward part of which each row uses some experts: those with the num_used largest logits of its
// router, the first ones of equal logits. At most kMaxUsedExperts of at most kMaxExperts.
struct ExpertsSpec {
  uint32_t num_experts = 0;  // 0: there is a single part, which all rows use
  uint32_t num_used = 0;
  WeightHandle router = {};       // (num_experts, hidden)
  WeightHandle router_bias = {};  // (num_experts), added to the logits, or none
};

// hidden = hidden + norm(weight * input + bias), or norm(hidden + weight * input + bias). A ProjectSpec
// without a norm adds the product itself.
struct ProjectSpec {
  ProjectInput input;
  WeightHandle weight;  // (hidden, width of the input)
  WeightHandle bias;    // one value for each row of weight, or none
  NormSpec norm = {};   // kRms, or kLayer of the sum, or none
  bool norms_sum = false;
  // Only with kGated: weight is (num_experts * hidden, width), and the outputs of a row's experts, with their
  // biases, are added up with the weights of the experts. No norm.
  ExpertsSpec experts = {};

  bool norms_product() const { return norm && !norms_sum; }
};

// gated = f(gate * y) x (up * y), where y is the norm of hidden, or f(up * y + bias) without a gate. Without
// a norm, y is hidden itself. kClampedSwish also changes the second factor, up * y: see nonlinearity.h.
struct FfnSpec {
  NormSpec norm;
  uint32_t width;  // of gate, of up and of gated
  // (2 width, hidden): the rows of gate, then those of up; (width, hidden) without a gate.
  WeightHandle gate_up;
  bool has_gate = true;
  Nonlinearity nonlinearity = Nonlinearity::kSilu;
  WeightHandle bias = {};  // one value for each row of gate_up, or none; not with a gate without experts
  // With experts, gate_up is (2 num_experts * width, hidden), with the gates of all experts first. gated has
  // one row for each expert that a row uses, one after the other.
  ExpertsSpec experts = {};
};

// Where a layer's K and V lie: in the blocks of this group (runner/models/kv_groups.h), there as this layer.
struct KvPlace {
  uint32_t group = 0;
  uint32_t layer = 0;
};

struct LayerSpec {
  uint32_t index;
  KvPlace kv = {};
  AttentionShape attention;
  // (heads of queries), or none: a logit beside the scores of each head, which has a weight and no value
  // (attention sinks, Xiao et al. 2023, arXiv 2309.17453).
  WeightHandle sinks = {};
  QkvSpec qkv;
  ProjectSpec attention_output;
  FfnSpec ffn;
  ProjectSpec ffn_output;
};

// logits = weight * norm of hidden. Where logits have a divisor, the gain of the norm is divided by it, and
// Decoder::states multiplies by it again.
struct HeadSpec {
  NormSpec norm;
  float divisor = 1.0f;
  WeightHandle weight;  // (vocab, hidden)
  uint32_t vocab_size;
  float softcap = 0.0f;  // of logits: see soft_capped; 0: none
};

// What a model makes of the state of a text's first token, a number that says how likely its one label is:
// output * tanh(dense * state + dense_bias) + output_bias. The host computes it (runner/models/classifier.h),
// so these are values.
struct ClassifierSpec {
  std::vector<float> dense;        // (hidden, hidden), by rows
  std::vector<float> dense_bias;   // (hidden)
  std::vector<float> output;       // (hidden)
  std::vector<float> output_bias;  // (1)

  explicit operator bool() const { return !output_bias.empty(); }
};

struct DecoderSpec {
  uint32_t hidden_size;  // width of the residual stream
  EmbeddingSpec embedding;
  std::vector<RopeSpec> ropes;  // layers refer to these
  std::vector<LayerSpec> layers;
  HeadSpec head;
  ClassifierSpec classifier = {};  // or none
};

// The widths of the data between the operations. A backend has one buffer of each for all layers.
struct DecoderWidths {
  uint32_t hidden;
  uint32_t qkv;          // queries, then keys, then values, of all heads
  uint32_t attended;     // of all heads of queries
  uint32_t gated;        // of one expert, if there are experts
  ExpertsSpec experts;   // num_experts is 0 without experts
  bool has_output_norm;  // a layer has a norm of a product
};

// Fails with kBadModel if the widths of a layer differ from those of the first one. The message names the
// layer.
Result<DecoderWidths> widths_of(const DecoderSpec& spec);

// The number of groups in which the layers have their K and V.
uint32_t num_kv_groups(const DecoderSpec& spec);

}  // namespace runnel
