// What the head of a model gives for a few rows of a step: tokens are drawn where the logits are computed,
// and logits come to the host only where they are asked for. What will be done with a row is told before it
// is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runner/sequence.h"

namespace runnel {

// A token to be drawn; see Sampler::sample.
struct Draw {
  std::span<const uint32_t> token_ids;  // the sequence so far
  uint32_t num_prompt_tokens;
  const SamplingParams& params;
  std::span<const uint32_t> masked_ids = {};  // besides those of params
  std::span<const uint32_t> allowed_bits =
      {};  // see id_bits.h; none but these, besides the lists; empty: all
};

struct HeadRow {
  uint32_t row;  // of the batch
  std::optional<Draw> draw = std::nullopt;
  bool wants_logits = false;  // on the host
};

// Answers to the rows of one call, by their places in it.
class LogitRows {
 public:
  virtual ~LogitRows() = default;

  // What Sampler draws from each row's logits; none where no draw was asked for, and where the logits are not
  // all finite. Waits for the device.
  virtual std::span<const std::optional<uint32_t>> drawn() = 0;
  // A row on the host (vocab_size), which was asked for with wants_logits. Waits for the device.
  virtual std::span<const float> row(uint32_t index) = 0;
};

}  // namespace runnel
