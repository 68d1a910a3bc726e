// Decides how many drafts a sequence gets. A draft costs a row of a step, and saves a step if it is drawn. So
// a sequence has an account of rows: each draft takes one, each draft that is drawn adds several, and each
// other token adds a little, so that a text that begins to repeat itself is noticed. If drafts are not drawn,
// the account is soon empty, and there are drafts only now and then. Counts decide and no clock, so equal
// tokens get equal drafts.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/engine/prompt_lookup.h"

namespace runnel {

class Speculation {
 public:
  // Limit of the drafts of a sequence in one step. The number is twice the number of the last drafts that
  // were drawn, at least one.
  static constexpr uint32_t kMaxDrafts = 7;
  // Content of the account at the beginning, and its limit. Up to this many drafts may be wasted.
  static constexpr uint32_t kFirstDrafts = 4;
  static constexpr uint32_t kMaxHeldDrafts = 12;
  // What a draft adds to the account when it is drawn. So drafts continue if one of three is drawn, which
  // pays if a row beside others costs less than a third of a step.
  static constexpr uint32_t kDraftsForDrawn = 3;
  // This many other tokens add one draft to the account.
  static constexpr uint32_t kTokensForDraft = 32;

  // Appends drafts to the tokens of the sequence, at most max_drafts, and returns how many; see PromptLookup.
  uint32_t append_drafts(std::vector<uint32_t>& token_ids, uint32_t max_drafts);
  // A token was drawn; was_draft says whether it was a draft.
  void drew(bool was_draft);

 private:
  PromptLookup lookup_;
  uint32_t num_last_drawn_ = 1;                        // number of the last drafts that were drawn
  uint32_t account_ = kFirstDrafts * kTokensForDraft;  // in units of 1 / kTokensForDraft of a draft
};

}  // namespace runnel
