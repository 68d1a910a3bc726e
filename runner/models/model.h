// A model, as those who run it see it: rows of tokens go in, logits and draws come out. Decoder is the one
// there is; tests have others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runner/batch.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

// Hyper-parameters, as read from the model file and checked: no size is zero, heads divide, products do not
// overflow.
struct ModelConfig {
  std::string architecture;  // general.architecture
  uint32_t num_layers;
  uint32_t hidden_size;     // width of the residual stream
  uint32_t num_heads;       // of queries
  uint32_t num_kv_heads;    // of keys and values; divides num_heads
  uint32_t head_dim;        // values in a head
  uint32_t ffn_size;        // width of the feed-forward layer
  uint32_t vocab_size;      // rows of the output matrix
  uint32_t context_length;  // positions the model was trained for
  uint32_t rotary_dim;      // values of a head that are rotated
  double rope_theta;
  double rope_factor;  // positions are divided by it before they turn anything
  float norm_epsilon;
  uint32_t sliding_window;  // positions that a token attends to in every layer, its own the last; 0: all
  uint32_t max_positions;   // of a sequence, as the runner is configured: at most context_length

  // Of architectures that have them, else 0.
  uint32_t original_context_length;  // positions that the model was trained for at first
  double rope_magnitude;             // what heads are multiplied with when they are rotated
  uint32_t local_window;             // the window of those layers that do not see everything
  uint32_t global_every;             // each so many-th layer sees everything
  double local_rope_theta;           // of the layers with a window
  uint32_t num_experts;
  uint32_t num_used_experts;  // by a token
  uint32_t expert_ffn_size;   // width of one expert's feed-forward layer
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;

  // May cut sequences off the end of the batch: rows do not see each other, so the rest goes on as if those
  // had never been there.
  using BetweenLayers = std::function<void(Batch&)>;

  // Computes the rows of the batch: stores their K and V, and leaves the last hidden state of each row for
  // logits(). Calls between_layers between every two layers, and ends early when that leaves no rows.
  virtual void forward(Batch& batch, const BetweenLayers& between_layers) = 0;

  // Logits of rows of the last forward, and the draws from them, valid until the next call of either. rows
  // has 1 to max_head_rows entries (see StepLimits); what they point to lives until what was drawn has been
  // read.
  virtual LogitRows& logits(std::span<const HeadRow> rows) = 0;

  // What logits are computed of: the hidden states of rows of the last forward, behind the last norm,
  // (rows, hidden_size). rows has 1 to max_head_rows entries. Waits for the device.
  virtual std::vector<float> states(std::span<const uint32_t> rows) = 0;
};

}  // namespace runnel
