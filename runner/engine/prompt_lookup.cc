#include "runner/engine/prompt_lookup.h"

#include <algorithm>
#include <bit>

namespace runnel {

uint32_t PromptLookup::append_drafts(std::vector<uint32_t>& token_ids, uint32_t max_drafts) {
  if (token_ids.size() <= kMatchTokens) return 0;
  learn(token_ids);
  const Match last = std::span(token_ids).last<kMatchTokens>();
  const uint32_t behind = slot_of(last);
  if (behind == 0) return 0;
  if (!std::ranges::equal(std::span(token_ids).subspan(behind - kMatchTokens, kMatchTokens), last)) return 0;
  // A text with a short period is continued by its own drafts.
  for (uint32_t i = 0; i < max_drafts; ++i) token_ids.push_back(token_ids[behind + i]);
  return max_drafts;
}

void PromptLookup::learn(std::span<const uint32_t> token_ids) {
  const size_t num_slots = std::clamp<size_t>(std::bit_ceil(2 * token_ids.size()), kMinSlots, kMaxSlots);
  if (num_slots > slots_.size()) {
    slots_.assign(num_slots, 0);
    num_learnt_ = kMatchTokens;
  }
  for (; num_learnt_ < token_ids.size(); ++num_learnt_)
    slot_of(token_ids.subspan(num_learnt_ - kMatchTokens).first<kMatchTokens>()) = num_learnt_;
}

uint32_t& PromptLookup::slot_of(Match match) {
  uint64_t hash = 0;
  for (const uint32_t id : match) {
    hash = (hash ^ id) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return slots_[hash & (slots_.size() - 1)];
}

}  // namespace runnel
