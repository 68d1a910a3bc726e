#include "runner/sampling/mask_job.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "runner/engine/sequence.h"
#include "runner/sampling/id_bits.h"

namespace runnel {
namespace {

// Removes the ids that the other masks exclude. The draw would exclude them anyway; doing it here shows
// whether any id is left.
void exclude_masked(const Sequence& sequence, size_t num_generated, std::span<uint32_t> bits) {
  for (const uint32_t id : sequence.sampling.banned_ids) set_id(bits, id, false);
  if (num_generated < sequence.min_tokens)
    for (const uint32_t id : sequence.stop_ids) set_id(bits, id, false);
}

bool leaves_any(const Sequence& sequence, std::span<const uint32_t> bits) {
  const std::vector<uint32_t>& allowed = sequence.sampling.allowed_ids;
  if (allowed.empty()) return std::ranges::any_of(bits, [](uint32_t word) { return word != 0; });
  return std::ranges::any_of(allowed, [&](uint32_t id) { return has_id(bits, id); });
}

}  // namespace

void NextMasks::keep_first(size_t num_masks) {
  allowed_bits.resize(num_masks);
  guessed_ids.resize(num_masks == 0 ? 0 : num_masks - 1);
}

bool NextMasks::drew(uint32_t token_id) {
  if (guessed_ids.empty() || guessed_ids.front() != token_id) {
    keep_first(0);
    return false;
  }
  guessed_ids.erase(guessed_ids.begin());
  allowed_bits.erase(allowed_bits.begin());
  return true;
}

void fill_masks(MaskJob& job, uint32_t vocab_size) {
  const size_t num_generated = job.generated_ids.size();
  std::vector<uint32_t> bits(num_id_words(vocab_size));
  job.next = {};
  job.filled = job.mask->fill(job.generated_ids, bits);
  bool is_filled = job.filled.ok();
  while (is_filled) {
    job.next.allowed_bits.push_back(bits);
    if (job.next.allowed_bits.size() > job.max_guesses) break;
    const std::optional<uint32_t> guess = job.mask->guess(bits);
    if (!guess) break;
    job.generated_ids.push_back(*guess);
    is_filled = job.mask->fill(job.generated_ids, bits).ok();
    if (is_filled) job.next.guessed_ids.push_back(*guess);
  }
  job.generated_ids.resize(num_generated);
}

void take_masks(Sequence& sequence, uint32_t vocab_size) {
  MaskJob& job = *sequence.mask_job;
  if (!job.filled.ok()) {
    sequence.mask_failure = job.filled.error().message;
    return;
  }
  NextMasks& next = sequence.next_masks = std::exchange(job.next, {});
  for (size_t i = 0; i < next.allowed_bits.size(); ++i) {
    std::vector<uint32_t>& bits = next.allowed_bits[i];
    // The bits after the last id belong to no id.
    if (vocab_size % 32 != 0) bits.back() &= (uint32_t{1} << vocab_size % 32) - 1;
    exclude_masked(sequence, sequence.num_generated() + i, bits);
    if (!leaves_any(sequence, bits)) next.keep_first(i);
  }
  if (!next.empty()) return;
  sequence.mask_failure = "After " + std::to_string(sequence.num_generated()) +
                          " tokens of the answer the grammar allows nothing that may be drawn. Spellings of "
                          "the vocabulary, banned_token_ids, allowed_token_ids or min_tokens exclude it.";
}

}  // namespace runnel
