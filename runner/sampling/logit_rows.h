// The result of a model's head for a few rows of a step. Tokens are drawn where the logits are computed, and
// logits come to the host only if they are asked for. So the use of each row is given before it is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runner/engine/sequence.h"

namespace runnel {

// A token to be drawn; see Sampler::sample.
struct Draw {
  std::span<const uint32_t> token_ids;  // the sequence so far; the last one is that of the row
  uint32_t num_prompt_tokens;
  const SamplingParams& params;
  std::span<const uint32_t> masked_ids = {};  // in addition to those of params
  // See id_bits.h; only these ids may be drawn, within the lists above; empty: all.
  std::span<const uint32_t> allowed_bits = {};
};

struct HeadRow {
  uint32_t row;  // of the batch
  std::optional<Draw> draw = std::nullopt;
  bool wants_logits = false;  // on the host
  bool is_last = false;       // whatever is drawn, the sequence has no further row
};

// The results for the rows of one call, in the same order.
class LogitRows {
 public:
  virtual ~LogitRows() = default;

  // What Sampler draws from the logits of each row. Nothing if no draw was asked for, or if the logits are
  // not all finite. Waits for the device.
  virtual std::span<const std::optional<uint32_t>> drawn() = 0;
  // The logits of a row (vocab_size) on the host, valid until the next call. The row must have wants_logits.
  // Waits for the device.
  virtual std::span<const float> row(uint32_t index) = 0;
};

}  // namespace runnel
