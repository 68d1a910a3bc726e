#include "cpu-runner/altered_logits.h"

#include <limits>

namespace runnel {
namespace {

// The logit of a masked token. Biases and penalties leave it as it is.
constexpr double kMasked = -std::numeric_limits<double>::infinity();

}  // namespace

void AlteredLogits::take(std::span<float> logits, const Draw& draw, double temperature) {
  const SamplingParams& params = draw.params;
  only_allowed_ = !params.allowed_ids.empty();
  for (const uint32_t id : params.allowed_ids)
    if (places_[id] == 0) add(id, logits);
  mask(params.banned_ids, logits);
  mask(draw.masked_ids, logits);
  for (const LogitBias& bias : params.logit_bias)
    if (Entry* entry = find(bias.token_id, logits)) entry->logit += bias.bias;
  if (params.repetition_penalty != 1.0f) {
    const double penalty = params.repetition_penalty;
    for (const uint32_t id : draw.token_ids) {
      Entry* entry = find(id, logits);
      if (entry == nullptr || entry->is_penalized) continue;
      entry->is_penalized = true;
      entry->logit = entry->logit > 0.0 ? entry->logit / penalty : entry->logit * penalty;
    }
  }
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    const double presence = params.presence_penalty;
    const double frequency = params.frequency_penalty;
    for (const uint32_t id : draw.token_ids.subspan(draw.num_prompt_tokens))
      if (Entry* entry = find(id, logits)) ++entry->num_generated;
    for (Entry& entry : entries_)
      if (entry.num_generated > 0) entry.logit -= presence + frequency * entry.num_generated;
  }

  for (const Entry& entry : entries_) {
    places_[entry.id] = 0;
    if (entry.logit != kMasked) candidates_.push_back({entry.logit / temperature, entry.id});
    if (only_allowed_) continue;
    taken_.push_back({entry.id, logits[entry.id]});
    logits[entry.id] = -std::numeric_limits<float>::infinity();
  }
  num_left_ = only_allowed_ ? 0 : static_cast<uint32_t>(logits.size() - taken_.size());
  entries_.clear();
}

void AlteredLogits::put_back(std::span<float> logits) {
  for (const auto& [id, logit] : taken_) logits[id] = logit;
  taken_.clear();
  candidates_.clear();
}

AlteredLogits::Entry* AlteredLogits::find(uint32_t id, std::span<const float> logits) {
  if (places_[id] == 0) {
    if (only_allowed_) return nullptr;
    add(id, logits);
  }
  return &entries_[places_[id] - 1];
}

void AlteredLogits::add(uint32_t id, std::span<const float> logits) {
  entries_.push_back({.logit = logits[id], .id = id, .num_generated = 0, .is_penalized = false});
  places_[id] = static_cast<uint32_t>(entries_.size());
}

void AlteredLogits::mask(std::span<const uint32_t> ids, std::span<const float> logits) {
  for (const uint32_t id : ids)
    if (Entry* entry = find(id, logits)) entry->logit = kMasked;
}

}  // namespace runnel
