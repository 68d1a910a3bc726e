// Guesses how a text goes on that repeats itself: as it did when the same few tokens last came. No second
// model, and no truth in it: a guess is a draft, to be computed and compared with what is drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

class PromptLookup {
 public:
  // As many tokens as must be the same. Fewer are often the same by chance, more are missed more often.
  static constexpr uint32_t kMatchTokens = 3;
  // Bounds its memory to 64 KiB for a sequence. Of a longer text, what came long ago is forgotten by and by.
  static constexpr uint32_t kMaxSlots = 1u << 14;

  // Puts drafts behind the tokens of a sequence, max_drafts or none, and returns how many. Each call gets the
  // tokens of the one before, without its drafts, and those that were drawn since. It looks at these and at
  // no other, so the time it takes does not grow with the sequence.
  uint32_t append_drafts(std::vector<uint32_t>& token_ids, uint32_t max_drafts);

 private:
  static constexpr uint32_t kMinSlots = 64;

  using Match = std::span<const uint32_t, kMatchTokens>;

  void learn(std::span<const uint32_t> token_ids);
  uint32_t& slot_of(Match match);

  // Index of the token behind the last run of kMatchTokens that has this slot; 0: none. Where two runs have
  // the same slot, the later one has it.
  std::vector<uint32_t> slots_;
  uint32_t num_learnt_ = kMatchTokens;  // tokens, of which each was entered as what is behind a run
};

}  // namespace runnel
