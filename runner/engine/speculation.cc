#include "runner/engine/speculation.h"

#include <algorithm>

namespace runnel {

uint32_t Speculation::append_drafts(std::vector<uint32_t>& token_ids, uint32_t max_drafts) {
  const uint32_t length = std::clamp(2 * num_last_drawn_, 1u, kMaxDrafts);
  const uint32_t num_wanted = std::min({max_drafts, length, num_affordable()});
  if (num_wanted == 0) return 0;
  const uint32_t num_drafts = lookup_.append_drafts(token_ids, num_wanted);
  if (num_drafts > 0) num_last_drawn_ = 0;
  pay(num_drafts);
  return num_drafts;
}

void Speculation::drew(bool was_draft) {
  num_last_drawn_ += was_draft;
  account_ += was_draft ? kDraftsForDrawn * kTokensForDraft : 1;
  account_ = std::min(account_, kMaxHeldDrafts * kTokensForDraft);
}

}  // namespace runnel
