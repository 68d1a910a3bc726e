// The masks of an engine's sequences: when they are filled, how long a step waits for them, and which
// sequences are late.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runner/engine/sequence.h"
#include "runner/sampling/mask_budget.h"
#include "runner/sampling/mask_filler.h"
#include "runner/system/steady_clock.h"

namespace runnel {

class SequenceMasks {
 public:
  SequenceMasks(std::unique_ptr<MaskFiller> filler, uint32_t vocab_size)
      : filler_(std::move(filler)), vocab_size_(vocab_size) {}

  // See Engine::allow_late_masks and forbid_late_masks.
  void allow_late(std::function<void()> on_mask);
  void forbid_late();

  // Begins to fill the mask of the sequence's next draw, unless a step that it sat out has begun it, and the
  // masks after at most max_guesses guesses.
  void start(Sequence& sequence, uint32_t max_guesses);
  // Takes the masks of these sequences, and waits for them as long as it may. The others get mask_is_late, as
  // those have that must sit the step out, and lose their last row of this step, which draws.
  void take(std::span<Sequence* const> sequences, const SteadyClock& now);
  // The step took this long, its wait in take() included.
  void end_step(std::chrono::nanoseconds took);
  // The sequence ends.
  void drop(Sequence& sequence);

  // Sequences that are late, in the order in which they became late.
  void add_late(Sequence& sequence) { late_.push_back(&sequence); }
  bool has_late() const { return !late_.empty(); }
  std::vector<uint32_t> late_with_masks();
  // Removes a sequence from them, after waiting for its mask. Null if it is not one of them.
  Sequence* take_late(uint32_t request_id);
  // Waits until the mask of the first of them is there, or this time has passed.
  void wait_for_late(std::chrono::milliseconds at_most);

 private:
  std::unique_ptr<MaskFiller> filler_;
  uint32_t vocab_size_;
  std::optional<MaskBudget> budget_;   // set while masks may be late
  std::chrono::nanoseconds waited_{};  // in this step
  std::vector<Sequence*> late_;
};

}  // namespace runnel
