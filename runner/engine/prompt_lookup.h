// Guesses how a text that repeats itself goes on: as it went on after the last occurrence of the same few
// tokens. This needs no second model. A guess may be wrong: it is a draft, which is computed and compared
// with what is drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

class PromptLookup {
 public:
  // Tokens that must be equal. Fewer are often equal by chance; with more, repetitions are missed more often.
  static constexpr uint32_t kMatchTokens = 3;
  // Limits the memory to 64 KiB for a sequence. In a longer text, old occurrences are forgotten gradually.
  static constexpr uint32_t kMaxSlots = 1u << 14;

  // Appends max_drafts drafts to the tokens of a sequence, or none, and returns how many. Each call must get
  // the tokens of the call before, without its drafts, and the tokens that were drawn since. It looks only at
  // new tokens and the last ones, so its time does not grow with the sequence.
  uint32_t append_drafts(std::vector<uint32_t>& token_ids, uint32_t max_drafts);

 private:
  static constexpr uint32_t kMinSlots = 64;

  using Match = std::span<const uint32_t, kMatchTokens>;

  void learn(std::span<const uint32_t> token_ids);
  uint32_t& slot_of(Match match);

  // Index of the token after the last run of kMatchTokens tokens that has this slot; 0: none. If two runs
  // have the same slot, the later one is kept.
  std::vector<uint32_t> slots_;
  uint32_t num_learnt_ = kMatchTokens;  // tokens that have been entered, each as the token after a run
};

}  // namespace runnel
