#include "cpu-runner/sampling/altered_logits.h"

#include <bit>
#include <limits>

#include "runner/sampling/id_bits.h"

namespace runnel {
namespace {

// The logit of a masked token. Biases and penalties do not change it.
constexpr double kMasked = -std::numeric_limits<double>::infinity();

// If at most one of this many ids is allowed, a draw from a list is faster than loops over the row.
constexpr size_t kIdsForListed = 64;

bool are_few(std::span<const uint32_t> bits) {
  size_t count = 0;
  for (const uint32_t word : bits) count += static_cast<size_t>(std::popcount(word));
  return count <= 32 * bits.size() / kIdsForListed;
}

// Calls fn(id) for each id of a word of bits that is below vocab_size, in order.
template <typename Fn>
void for_each_id(uint32_t word, uint32_t first_id, size_t vocab_size, const Fn& fn) {
  if (vocab_size - first_id < 32) word &= (uint32_t{1} << (vocab_size - first_id)) - 1;
  for (; word != 0; word &= word - 1) fn(first_id + static_cast<uint32_t>(std::countr_zero(word)));
}

}  // namespace

void AlteredLogits::take(std::span<float> logits, const Draw& draw, double temperature) {
  const SamplingParams& params = draw.params;
  allowed_bits_ = draw.allowed_bits;
  take_allowed(logits, draw);
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
  if (!only_allowed_ && !allowed_bits_.empty()) take_excluded(logits);
  num_left_ = only_allowed_ ? 0 : static_cast<uint32_t>(logits.size() - taken_.size());
  entries_.clear();
}

void AlteredLogits::take_allowed(std::span<const float> logits, const Draw& draw) {
  only_allowed_ = !draw.params.allowed_ids.empty();
  for (const uint32_t id : draw.params.allowed_ids)
    if (places_[id] == 0 && (allowed_bits_.empty() || has_id(allowed_bits_, id))) add(id, logits);
  if (only_allowed_ || allowed_bits_.empty() || !are_few(allowed_bits_)) return;
  only_allowed_ = true;
  for (uint32_t i = 0; i < allowed_bits_.size(); ++i)
    for_each_id(allowed_bits_[i], 32 * i, logits.size(), [&](uint32_t id) { add(id, logits); });
}

// Entries are never ids that the bits exclude, so no logit is taken twice.
void AlteredLogits::take_excluded(std::span<float> logits) {
  for (uint32_t first_id = 0; first_id < logits.size(); first_id += 32) {
    for_each_id(~allowed_bits_[first_id / 32], first_id, logits.size(), [&](uint32_t id) {
      taken_.push_back({id, logits[id]});
      logits[id] = -std::numeric_limits<float>::infinity();
    });
  }
}

void AlteredLogits::put_back(std::span<float> logits) {
  for (const auto& [id, logit] : taken_) logits[id] = logit;
  taken_.clear();
  candidates_.clear();
}

AlteredLogits::Entry* AlteredLogits::find(uint32_t id, std::span<const float> logits) {
  if (places_[id] == 0) {
    if (only_allowed_ || (!allowed_bits_.empty() && !has_id(allowed_bits_, id))) return nullptr;
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
