// The masks of one sequence: what they are filled from, and what came of it. The sequence and the filler
// share the job, since a sequence may end while its masks are being filled.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "runner/result.h"
#include "runner/sampling/token_mask.h"

namespace runnel {

struct Sequence;

// The masks of a sequence's next draws, as far as they are known, each in the form of id_bits.h. The first is
// that of the next draw. Each further one is known for the case that the guesses before it are drawn.
struct NextMasks {
  std::vector<std::vector<uint32_t>> allowed_bits;
  std::vector<uint32_t> guessed_ids;  // one fewer, unless there are no masks

  bool empty() const { return allowed_bits.empty(); }
  void keep_first(size_t num_masks);
  // The next id was drawn. Returns whether it was guessed. If not, no mask is known any more.
  bool drew(uint32_t token_id);
};

struct MaskJob {
  enum class State { kIdle, kQueued, kFilling, kDone };

  // From start() until is_done() only the filler may use these.
  std::shared_ptr<TokenMask> mask;
  std::vector<uint32_t> generated_ids;
  uint32_t max_guesses = 0;
  NextMasks next;
  Result<void> filled;  // the first mask

  // The filler's own.
  State state = State::kIdle;
  std::chrono::nanoseconds took{};  // processor time of the last fill_masks()
  std::chrono::steady_clock::time_point due{};
};

// Fills the mask after generated_ids, and as long as there is a guess, at most max_guesses times, the one
// after the guess. One that cannot be filled after a guess is left to the job that follows what was drawn.
void fill_masks(MaskJob& job, uint32_t vocab_size);

// Gives the sequence the result of its job, which must be done: next_masks, without the ids that the
// request's own lists exclude, or mask_failure if filling failed or nothing is left to draw.
void take_masks(Sequence& sequence, uint32_t vocab_size);

}  // namespace runnel
