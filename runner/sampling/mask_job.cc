#include "runner/sampling/mask_job.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "runner/engine/sequence.h"
#include "runner/sampling/id_bits.h"

namespace runnel {
namespace {

// Removes the ids that the other masks exclude. The draw would exclude them anyway; doing it here shows
// whether any id is left.
void exclude_masked(const Sequence& sequence, std::span<uint32_t> bits) {
  for (const uint32_t id : sequence.sampling.banned_ids) set_id(bits, id, false);
  if (sequence.num_generated() < sequence.min_tokens)
    for (const uint32_t id : sequence.stop_ids) set_id(bits, id, false);
}

bool leaves_any(const Sequence& sequence, std::span<const uint32_t> bits) {
  const std::vector<uint32_t>& allowed = sequence.sampling.allowed_ids;
  if (allowed.empty()) return std::ranges::any_of(bits, [](uint32_t word) { return word != 0; });
  return std::ranges::any_of(allowed, [&](uint32_t id) { return has_id(bits, id); });
}

}  // namespace

void take_mask(Sequence& sequence, uint32_t vocab_size) {
  MaskJob& job = *sequence.mask_job;
  if (!job.filled.ok()) {
    sequence.mask_failure = job.filled.error().message;
    return;
  }
  std::swap(sequence.allowed_bits, job.allowed_bits);
  // The bits after the last id belong to no id.
  if (vocab_size % 32 != 0) sequence.allowed_bits.back() &= (uint32_t{1} << vocab_size % 32) - 1;
  exclude_masked(sequence, sequence.allowed_bits);
  if (leaves_any(sequence, sequence.allowed_bits)) return;
  sequence.mask_failure = "After " + std::to_string(sequence.num_generated()) +
                          " tokens of the answer the grammar allows nothing that may be drawn. Spellings of "
                          "the vocabulary, banned_token_ids, allowed_token_ids or min_tokens exclude it.";
}

}  // namespace runnel
