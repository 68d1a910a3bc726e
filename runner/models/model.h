// The interface of a model: it takes rows of tokens and gives logits and draws. Decoder is the only
// implementation besides those of tests.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runner/backend/batch.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

// Hyper-parameters as read from the model file. They are checked: no size is zero, num_kv_heads divides
// num_heads, products do not overflow.
struct ModelConfig {
  std::string architecture;  // general.architecture
  uint32_t num_layers;
  uint32_t hidden_size;     // width of the residual stream
  uint32_t num_heads;       // of queries
  uint32_t num_kv_heads;    // of keys and values; divides num_heads
  uint32_t head_dim;        // values in a head
  uint32_t ffn_size;        // width of the feed-forward layer
  uint32_t vocab_size;      // rows of the output matrix
  uint32_t context_length;  // positions the model was trained for, or as many as are supported
  uint32_t rotary_dim;      // values of a head that are rotated
  double rope_theta;
  double rope_factor;  // positions are divided by it before they rotate anything
  float norm_epsilon;
  // Positions that a token attends to in every layer, its own included; 0: all. layer_window() also knows the
  // windows of models that mix.
  uint32_t sliding_window;
  uint32_t max_positions;  // of the longest sequence, as the runner is configured: at most context_length

  // These are 0 for architectures without them.
  uint32_t original_context_length;  // positions that the model was first trained for
  double rope_magnitude;             // heads are multiplied by it when they are rotated
  double yarn_fast_turns;            // pairs that turn this often in the original length are not scaled
  double yarn_slow_turns;            // pairs that turn this often are scaled by all of the factor
  bool yarn_keeps_fractions;         // the pairs that these turns give are not rounded to whole ones
  uint32_t local_window;             // window of the layers that do not see all positions
  uint32_t global_every;             // every global_every-th layer sees all positions
  double local_rope_theta;           // of the layers with a window
  uint32_t num_experts;
  uint32_t num_used_experts;  // experts that each token uses
  uint32_t expert_ffn_size;   // width of the feed-forward layer of one expert
  double embedding_scale;
  double residual_scale;     // of what attention and feed-forward add to the residual stream
  double attention_scale;    // of q . k
  double logit_divisor;      // logits are divided by it
  double attention_softcap;  // of scores
  double logit_softcap;
  // Each token sees all tokens of its text: the model makes vectors of whole texts, and writes none.
  bool is_encoder;
  // These are known when the weights are loaded.
  uint32_t num_token_types;  // 0 or 1: all tokens are of one type
  bool has_classifier;
  // RopeSpec::max_short_positions; 0: the model has one set of frequencies for every context.
  uint32_t max_short_positions;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;

  // Called between two layers. It may cut sequences off the end of the batch: rows of different sequences do
  // not see each other, so the remaining rows are computed as if the others had never been there.
  using BetweenLayers = std::function<void(Batch&)>;

  // Computes the rows of the batch: stores their K and V, and keeps the last hidden state of each row for
  // logits() and states(). Calls between_layers between every two layers, and ends early when no rows are
  // left.
  virtual void forward(Batch& batch, const BetweenLayers& between_layers) = 0;

  // Logits of rows of the last forward, and the draws from them. They are valid until the next call of
  // forward() or logits(). rows has 1 to max_head_rows entries (see StepLimits); what they point to must live
  // until the draws have been read.
  virtual LogitRows& logits(std::span<const HeadRow> rows) = 0;

  // The hidden states of rows of the last forward, after the last norm: (rows, hidden_size). The head
  // multiplies these to get logits. rows has 1 to max_head_rows entries. Waits for the device.
  virtual std::vector<float> states(std::span<const uint32_t> rows) = 0;

  // What the classification head makes of the state of a text's first token. The model must have one.
  virtual float classify(std::span<const float> state) const = 0;
};

}  // namespace runnel
