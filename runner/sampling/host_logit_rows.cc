#include "runner/sampling/host_logit_rows.h"

#include "runner/check.h"

namespace runnel {

HostLogitRows::HostLogitRows(uint32_t max_rows, uint32_t vocab_size)
    : max_rows_(max_rows),
      vocab_size_(vocab_size),
      logits_(std::make_unique_for_overwrite<float[]>(size_t{max_rows} * vocab_size)),
      sampler_(vocab_size) {}

std::span<float> HostLogitRows::start(std::span<const HeadRow> rows) {
  CHECK(!rows.empty() && rows.size() <= max_rows_);
  // Not assigned: a draw refers to its parameters.
  rows_ = std::vector<HeadRow>(rows.begin(), rows.end());
  has_drawn_ = false;
  return {logits_.get(), rows.size() * vocab_size_};
}

std::span<const std::optional<uint32_t>> HostLogitRows::drawn() {
  if (has_drawn_) return drawn_;
  has_drawn_ = true;
  drawn_.assign(rows_.size(), std::nullopt);
  for (uint32_t i = 0; i < rows_.size(); ++i) {
    const std::optional<Draw>& draw = rows_[i].draw;
    if (!draw || !all_finite(logits(i))) continue;
    drawn_[i] =
        sampler_.sample(logits(i), draw->token_ids, draw->num_prompt_tokens, draw->params, draw->masked_ids);
  }
  return drawn_;
}

std::span<const float> HostLogitRows::row(uint32_t index) {
  CHECK(index < rows_.size() && rows_[index].wants_logits);
  return logits(index);
}

std::span<const float> HostLogitRows::logits(uint32_t index) const {
  return {logits_.get() + size_t{index} * vocab_size_, vocab_size_};
}

}  // namespace runnel
