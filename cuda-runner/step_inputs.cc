#include "cuda-runner/step_inputs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runner/check.h"

namespace runnel {

namespace {

// Block tables of this size are sent as one piece. Of larger ones, of which sequences use less than half, the
// part is sent that they use: 256 tables for 131,072 positions are 2 MB.
constexpr size_t kMaxWholeTablesBytes = size_t{64} << 10;

size_t num_row_words(const StepInputsShape& shape) {
  return size_t{3} * shape.max_rows;
}
size_t num_table_words(const StepInputsShape& shape) {
  return shape.num_groups * (size_t{shape.max_rows} + 1) * shape.max_table_blocks;
}
size_t num_attend_words(const StepInputsShape& shape) {
  size_t words = 0;
  for (const AttendPlanShape& plan : shape.attend_plans) words += AttendPlan::max_words(plan);
  return words;
}

}  // namespace

Result<StepInputs> StepInputs::allocate(const StepInputsShape& shape, Stream& stream) {
  StepInputs inputs;
  inputs.max_rows_ = shape.max_rows;
  inputs.num_groups_ = shape.num_groups;
  inputs.max_table_blocks_ = shape.max_table_blocks;
  size_t first_word = 0;
  for (const AttendPlanShape& plan : shape.attend_plans) {
    const size_t max_words = AttendPlan::max_words(plan);
    inputs.attends_.push_back(
        {plan.window, AttendPlan(plan), AttendPlan::max_pieces(plan), first_word, max_words});
    first_word += max_words;
  }
  const Result<void> allocated = allocate_all(
      "a step's rows", Wanted{inputs.rows_, num_row_words(shape)},
      Wanted{inputs.tables_, num_table_words(shape)}, Wanted{inputs.attend_words_, num_attend_words(shape)},
      Wanted{inputs.host_rows_, num_row_words(shape)}, Wanted{inputs.host_tables_, num_table_words(shape)},
      Wanted{inputs.host_attend_words_, num_attend_words(shape)});
  if (!allocated) return allocated.error();
  stream.fill_with_zeros(inputs.attend_words_);  // kernels also read beyond the end of a list
  return inputs;
}

uint64_t StepInputs::bytes(const StepInputsShape& shape) {
  return device_bytes(num_row_words(shape), sizeof(uint32_t)) +
         device_bytes(num_table_words(shape), sizeof(uint32_t)) +
         device_bytes(num_attend_words(shape), sizeof(uint32_t));
}

AttendWork StepInputs::attend_work(uint32_t window) const {
  const auto attend = std::ranges::find(attends_, window, &Attend::window);
  CHECK(attend != attends_.end());
  return {attend_words_.view().from(attend->first_word, attend->max_words), attend->max_pieces,
          attend->plan.has_pieces(), attend->plan.num_tiles()};
}

void StepInputs::send(const Batch& batch, uint32_t num_rows, uint32_t spare_block, Stream& stream) {
  CHECK(batch.num_rows() <= num_rows && num_rows <= max_rows_ && batch.sequences.size() <= max_rows_);
  sent_.wait();
  const std::span<uint32_t> words = host_rows_.span();
  const std::span<uint32_t> token_ids = words.subspan(0, num_rows);
  const std::span<uint32_t> positions = words.subspan(max_rows_, num_rows);
  const std::span<uint32_t> sequences = words.subspan(size_t{2} * max_rows_, num_rows);
  const auto num_sequences = static_cast<uint32_t>(batch.sequences.size());
  std::ranges::fill(token_ids, 0u);
  std::ranges::fill(positions, 0u);
  std::ranges::fill(sequences, num_sequences);  // the index of the sequence with the spare block
  std::ranges::copy(batch.token_ids, token_ids.begin());
  std::ranges::copy(batch.positions, positions.begin());
  for (uint32_t index = 0; index < num_sequences; ++index) {
    const BatchSequence& sequence = batch.sequences[index];
    std::ranges::fill(sequences.subspan(sequence.first_row, sequence.num_rows), index);
  }

  for (uint32_t part = 0; part < 3; ++part) {
    const size_t first = size_t{part} * max_rows_;
    stream.upload(rows_, first, host_rows_.part(first, num_rows));
  }
  for (uint32_t group = 0; group < num_groups_; ++group) send_tables(batch, group, spare_block, stream);
  for (Attend& attend : attends_) {
    // Nobody needs the attention of rows that are added.
    const std::span<const uint32_t> made =
        attend.plan.make(positions.first(batch.num_rows()), sequences.first(batch.num_rows()));
    std::ranges::copy(made, host_attend_words_.span().subspan(attend.first_word).begin());
    stream.upload(attend_words_, attend.first_word, host_attend_words_.part(attend.first_word, made.size()));
  }
  sent_.record(stream);
}

void StepInputs::send_tables(const Batch& batch, uint32_t group, uint32_t spare_block, Stream& stream) {
  const size_t first = group * num_group_words();
  const std::span<uint32_t> tables = host_tables_.span().subspan(first, num_group_words());
  size_t end = 0;
  size_t longest = 1;
  for (const BatchSequence& sequence : batch.sequences) {
    CHECK(sequence.block_tables.size() == num_groups_);
    const std::vector<uint32_t>& table = sequence.block_tables[group];
    CHECK(table.size() <= max_table_blocks_);
    std::ranges::copy(table, tables.subspan(end).begin());
    end += max_table_blocks_;
    longest = std::max(longest, table.size());
  }
  tables[end] = spare_block;
  const PinnedPart<uint32_t> whole = host_tables_.part(first, end + max_table_blocks_);
  if (whole.values.size_bytes() <= kMaxWholeTablesBytes || longest > max_table_blocks_ / 2) {
    stream.upload(tables_, first, whole);
  } else {
    stream.upload_rows(tables_, first, whole, max_table_blocks_, longest, batch.sequences.size() + 1);
  }
}

}  // namespace runnel
