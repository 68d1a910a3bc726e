#include "runner/sampling/host_logit_rows.h"

#include "runner/check.h"

namespace runnel {

HostLogitRows::HostLogitRows(uint32_t max_rows, uint32_t vocab_size)
    : max_rows_(max_rows),
      vocab_size_(vocab_size),
      logits_(std::make_unique_for_overwrite<float[]>(size_t{max_rows} * vocab_size)),
      sampler_(vocab_size) {}

std::span<float> HostLogitRows::start(uint32_t num_rows) {
  CHECK(num_rows <= max_rows_);
  num_rows_ = num_rows;
  return {logits_.get(), size_t{num_rows} * vocab_size_};
}

std::vector<std::optional<uint32_t>> HostLogitRows::draw(std::span<const Draw> draws) {
  std::vector<std::optional<uint32_t>> drawn;
  for (const Draw& each : draws) {
    const std::span<const float> logits = row(each.row);
    if (!all_finite(logits)) {
      drawn.push_back(std::nullopt);
    } else {
      drawn.push_back(
          sampler_.sample(logits, each.token_ids, each.num_prompt_tokens, each.params, each.masked_ids));
    }
  }
  return drawn;
}

std::span<const float> HostLogitRows::row(uint32_t row) {
  CHECK(row < num_rows_);
  return {logits_.get() + size_t{row} * vocab_size_, vocab_size_};
}

}  // namespace runnel
