#include "cuda-runner/step_ahead.h"

#include <algorithm>
#include <utility>

#include "cuda-runner/draw_lists.h"
#include "runner/check.h"

namespace runnel {

void StepAhead::append_blocks(const BatchSequence& sequence, uint32_t position,
                              std::vector<uint32_t>& blocks) const {
  for (const std::vector<uint32_t>& table : sequence.block_tables)
    blocks.push_back(table.at(position / block_size_));
}

void StepAhead::begin(const Batch& batch) {
  rest_ = &batch;
  computed_.clear();
  rest_rows_.clear();
  followed_.clear();
  if (batch.repeats) followed_ = batch.sequences;
  if (!std::exchange(is_under_way_, false)) return;

  // Sequences keep their order, but for those that come and go.
  std::vector<uint32_t> blocks;
  uint32_t num_found = 0;
  size_t place = 0;
  computed_.assign(batch.num_rows(), std::nullopt);
  for (const BatchSequence& sequence : batch.sequences) {
    const auto begin = rows_.begin() + static_cast<ptrdiff_t>(place);
    const Row wanted{sequence.serial, sequence.first_position};
    const auto found = std::find(begin, rows_.end(), wanted);
    if (found == rows_.end() || sequence.num_rows != 1) continue;
    const auto index = static_cast<size_t>(found - rows_.begin());
    const size_t num_groups = sequence.block_tables.size();
    blocks.clear();
    append_blocks(sequence, sequence.first_position, blocks);
    if (!std::ranges::equal(blocks, std::span(blocks_).subspan(index * num_groups, num_groups))) continue;
    computed_[sequence.first_row] = static_cast<uint32_t>(index);
    place = index + 1;
    ++num_found;
  }
  num_rows_ += num_found;
  if (num_found == 0) {
    computed_.clear();
    return;
  }
  split(batch);
}

void StepAhead::split(const Batch& batch) {
  split_ = Batch();
  rest_rows_.assign(batch.num_rows(), 0);
  for (const BatchSequence& sequence : batch.sequences) {
    if (computed_[sequence.first_row]) continue;
    BatchSequence& left = split_.sequences.emplace_back(sequence);
    left.first_row = split_.num_rows();
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.num_rows; ++row) {
      rest_rows_[row] = split_.num_rows();
      split_.token_ids.push_back(batch.token_ids[row]);
      split_.positions.push_back(batch.positions[row]);
      if (!batch.types.empty()) split_.types.push_back(batch.types[row]);
    }
  }
  rest_ = &split_;
}

std::optional<StepAhead::Next> StepAhead::next(std::span<const HeadRow> rows) const {
  const bool is_mixed = !computed_.empty() && rest_->num_rows() > 0;
  // More rows may come in several calls.
  if (followed_.empty() || followed_.size() > max_rows_ || is_mixed) return std::nullopt;
  Next next;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const HeadRow& row = rows[i];
    if (!row.draw || row.wants_logits || !is_plain(*row.draw)) return std::nullopt;
    if (row.is_last) continue;
    const BatchSequence& sequence = followed_.at(row.row);
    CHECK(sequence.first_row == row.row && sequence.num_rows == 1 && sequence.serial != 0);
    const uint32_t position = sequence.first_position + 1;
    const auto has_place = [&](const std::vector<uint32_t>& table) {
      return position / block_size_ < table.size();
    };
    if (!std::ranges::all_of(sequence.block_tables, has_place)) return std::nullopt;
    const uint32_t next_row = next.batch.num_rows();
    next.batch.sequences.push_back({next_row, 1, position, sequence.block_tables, sequence.serial});
    next.batch.token_ids.push_back(computed(row.row).value_or(i));
    next.batch.positions.push_back(position);
    next.rows.push_back({.row = next_row, .draw = row.draw});
  }
  if (next.rows.empty()) return std::nullopt;
  return next;
}

void StepAhead::launched(const Batch& batch) {
  is_under_way_ = true;
  rows_.clear();
  blocks_.clear();
  for (const BatchSequence& sequence : batch.sequences) {
    rows_.push_back({sequence.serial, sequence.first_position});
    append_blocks(sequence, sequence.first_position, blocks_);
  }
}

}  // namespace runnel
