#include "cuda-runner/draw_lists.h"

#include <algorithm>
#include <bit>

#include "runner/check.h"
#include "runner/sampling/id_bits.h"

namespace runnel {
namespace {

// The ids that penalties apply to; those of the answer come last.
std::span<const uint32_t> penalised_ids(const Draw& draw) {
  const SamplingParams& params = draw.params;
  if (params.repetition_penalty != 1.0f) return draw.token_ids;
  if (params.presence_penalty == 0.0f && params.frequency_penalty == 0.0f) return {};
  return draw.token_ids.subspan(draw.num_prompt_tokens);
}

bool has_lists(const Draw& draw) {
  const SamplingParams& params = draw.params;
  return !params.allowed_ids.empty() || !draw.allowed_bits.empty() || !params.banned_ids.empty() ||
         !draw.masked_ids.empty() || !params.logit_bias.empty() || !penalised_ids(draw).empty();
}

}  // namespace

bool is_plain(const Draw& draw) {
  const SamplingParams& params = draw.params;
  const bool has_penalties = params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
                             params.frequency_penalty != 0.0f;
  return !has_penalties && !has_lists(draw);
}

size_t DrawLists::max_words(uint32_t vocab_size) {
  return num_id_words(vocab_size) + 2 * size_t{vocab_size} + 2 * size_t{kMaxLogitBiases};
}

size_t DrawLists::bound(const Draw& draw) const {
  if (!has_lists(draw)) return 0;
  const size_t num_biases = draw.params.logit_bias.size();
  const size_t num_changed = std::min<size_t>(num_biases + penalised_ids(draw).size(), vocab_size_);
  return num_id_words(vocab_size_) + 2 * num_changed + 2 * num_biases;
}

uint32_t DrawLists::pack(const Draw& draw, std::span<uint32_t> words, uint32_t first, DeviceDraw& device) {
  device.first_word = first;
  device.num_bit_words = device.num_changed = device.num_biased = 0;
  if (!has_lists(draw)) return 0;
  words = words.subspan(first);
  CHECK(bound(draw) <= words.size());
  bits_ = words.first(num_id_words(vocab_size_));
  pairs_ = words.subspan(bits_.size());
  num_pairs_ = 0;
  allow(draw);
  // The pairs with biases come first.
  num_biases_.assign(draw.params.logit_bias.size(), 0);
  for (const LogitBias& bias : draw.params.logit_bias)
    if (find(bias.token_id) != nullptr) ++num_biases_[places_[bias.token_id] - 1];
  device.num_biased = num_pairs_;
  add_seen(draw);
  device.num_bit_words = static_cast<uint32_t>(bits_.size());
  device.num_changed = num_pairs_;

  const std::span<uint32_t> ends = pairs_.subspan(2 * size_t{num_pairs_}, device.num_biased);
  uint32_t num_biases = 0;
  for (uint32_t i = 0; i < ends.size(); ++i) {
    ends[i] = num_biases;  // where the biases of the pair begin; the loop below moves it to where they end
    num_biases += num_biases_[i];
  }
  const std::span<uint32_t> biases = pairs_.subspan(2 * size_t{num_pairs_} + ends.size(), num_biases);
  for (const LogitBias& bias : draw.params.logit_bias)
    if (const uint32_t place = places_[bias.token_id]; place != 0)
      biases[ends[place - 1]++] = std::bit_cast<uint32_t>(bias.bias);
  for (uint32_t i = 0; i < num_pairs_; ++i) places_[pairs_[2 * size_t{i}]] = 0;
  return static_cast<uint32_t>(bits_.size() + 2 * size_t{num_pairs_} + ends.size() + biases.size());
}

void DrawLists::allow(const Draw& draw) {
  const SamplingParams& params = draw.params;
  CHECK(draw.allowed_bits.empty() || draw.allowed_bits.size() == bits_.size());
  if (params.allowed_ids.empty()) {
    std::ranges::fill(bits_, ~uint32_t{0});
  } else {
    std::ranges::fill(bits_, 0u);
    for (const uint32_t id : params.allowed_ids) set_id(bits_, id, true);
  }
  for (size_t i = 0; i < draw.allowed_bits.size(); ++i) bits_[i] &= draw.allowed_bits[i];
  for (const uint32_t id : params.banned_ids) set_id(bits_, id, false);
  for (const uint32_t id : draw.masked_ids) set_id(bits_, id, false);
}

uint32_t* DrawLists::find(uint32_t id) {
  uint32_t& place = places_[id];
  if (place == 0) {
    if (!has_id(bits_, id)) return nullptr;
    set_id(bits_, id, false);
    pairs_[2 * size_t{num_pairs_}] = id;
    pairs_[2 * size_t{num_pairs_} + 1] = 0;
    place = ++num_pairs_;
  }
  return &pairs_[2 * size_t{place - 1}];
}

void DrawLists::add_seen(const Draw& draw) {
  const std::span<const uint32_t> ids = penalised_ids(draw);
  const size_t num_prompt = ids.size() - std::min(ids.size(), draw.token_ids.size() - draw.num_prompt_tokens);
  for (size_t i = 0; i < ids.size(); ++i) {
    uint32_t* const pair = find(ids[i]);
    if (pair == nullptr) continue;
    pair[1] = std::max(pair[1], 1u) + (i < num_prompt ? 0 : 1);
  }
}

}  // namespace runnel
