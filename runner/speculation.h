// Which drafts a sequence gets. A draft costs a row of a step, and saves a step if it is drawn. So a sequence
// has an account of rows: each draft takes one, each that is drawn gives several back, and each token gives a
// little, so that a text which begins to repeat itself is noticed. Where drafts are not drawn the account is
// soon empty, and there are none but for one now and then. Counts decide and no clock: equal tokens get equal
// drafts.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/prompt_lookup.h"

namespace runnel {

class Speculation {
 public:
  // Of a sequence in one step: twice as many as were drawn of the last ones, one at least, at most these.
  static constexpr uint32_t kMaxDrafts = 7;
  // What the account begins with, and holds at most: of so many nothing may come.
  static constexpr uint32_t kFirstDrafts = 4;
  static constexpr uint32_t kMaxHeldDrafts = 12;
  // What a draft brings that is drawn. So they go on where one of three is, which pays if a row beside others
  // costs less than a third of a step.
  static constexpr uint32_t kDraftsForDrawn = 3;
  // One for so many tokens of other kinds.
  static constexpr uint32_t kTokensForDraft = 32;

  // Puts drafts behind the tokens of the sequence, at most so many, and returns how many; see PromptLookup.
  uint32_t append_drafts(std::vector<uint32_t>& token_ids, uint32_t max_drafts);
  // A token was drawn; it was a draft or not.
  void drew(bool was_draft);

 private:
  PromptLookup lookup_;
  uint32_t num_last_drawn_ = 1;                        // of the last drafts
  uint32_t account_ = kFirstDrafts * kTokensForDraft;  // in parts of a draft
};

}  // namespace runnel
