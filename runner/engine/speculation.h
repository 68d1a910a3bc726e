// Decides how many drafts a sequence gets. A draft costs a row of a step, and saves a step if it is drawn. So
// a sequence has an account of rows: each draft takes one, each draft that is drawn adds several, and each
// other token adds a little, so that a text that begins to repeat itself is noticed. If drafts are not drawn,
// the account is soon empty, and there are drafts only now and then. Counts decide and no clock, so equal
// tokens get equal drafts.
//
// A sequence with a mask has the guesses of its mask as drafts, and only these. A guess that is not drawn
// takes one more from its account, be it a draft or not, since masks were filled after it.
#pragma once

#include <algorithm>
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
  // Limit of the guesses for which masks are filled ahead. The first guess is no draft: the step that it is
  // made in draws its token.
  uint32_t max_guesses() const { return std::min(kMaxDrafts + 1, num_affordable()); }
  // Pays for drafts or guesses, at most for max_guesses().
  void pay(uint32_t num_drafts) { account_ -= num_drafts * kTokensForDraft; }
  // A token was drawn; was_draft says whether it was a draft or a guess.
  void drew(bool was_draft);

 private:
  uint32_t num_affordable() const { return account_ / kTokensForDraft; }

  PromptLookup lookup_;
  uint32_t num_last_drawn_ = 1;                        // number of the last drafts that were drawn
  uint32_t account_ = kFirstDrafts * kTokensForDraft;  // in units of 1 / kTokensForDraft of a draft
};

}  // namespace runnel
