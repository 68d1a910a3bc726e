// The mask of one sequence: what it is filled from, and what came of it. The sequence and the filler share
// it, since a sequence may end while its mask is being filled.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "runner/result.h"
#include "runner/sampling/token_mask.h"

namespace runnel {

struct Sequence;

struct MaskJob {
  enum class State { kIdle, kQueued, kFilling, kDone };

  // From start() until is_done() only the filler may use these.
  std::shared_ptr<TokenMask> mask;
  std::vector<uint32_t> generated_ids;
  std::vector<uint32_t> allowed_bits;
  Result<void> filled;

  // The filler's own.
  State state = State::kIdle;
  std::chrono::nanoseconds took{};  // processor time of the last fill
  std::chrono::steady_clock::time_point due{};
};

// Gives the sequence the result of its job, which must be done: allowed_bits, without the ids that the
// request's own lists exclude, or mask_failure if filling failed or nothing is left to draw.
void take_mask(Sequence& sequence, uint32_t vocab_size);

}  // namespace runnel
