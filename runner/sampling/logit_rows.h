// Logits of a few rows of a step, where the backend computed them: tokens are drawn there, and what else is
// wanted of them is brought to the host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runner/sequence.h"

namespace runnel {

// A token to be drawn from one of the rows; see Sampler::sample.
struct Draw {
  uint32_t row;                         // among the chosen ones
  std::span<const uint32_t> token_ids;  // the sequence so far
  uint32_t num_prompt_tokens;
  const SamplingParams& params;
  std::span<const uint32_t> masked_ids;  // besides those of params
};

class LogitRows {
 public:
  virtual ~LogitRows() = default;

  // For each draw, of which there are no more than rows, what Sampler draws from the row's logits; none if
  // they are not all finite.
  virtual std::vector<std::optional<uint32_t>> draw(std::span<const Draw> draws) = 0;
  // Brings rows to the host, all at once, for row() to find them there.
  virtual void fetch(std::span<const uint32_t> rows) = 0;
  // A row on the host (vocab_size), valid as long as the rows are.
  virtual std::span<const float> row(uint32_t row) = 0;
};

}  // namespace runnel
