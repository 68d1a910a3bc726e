#include "cuda-runner/step_inputs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runner/check.h"

namespace runnel {

Result<StepInputs> StepInputs::allocate(uint32_t max_rows, uint32_t max_table_blocks) {
  StepInputs inputs;
  inputs.max_rows_ = max_rows;
  inputs.max_table_blocks_ = max_table_blocks;
  const size_t num_row_words = size_t{3} * max_rows;
  const size_t num_table_words = (size_t{max_rows} + 1) * max_table_blocks;
  const Result<void> allocated = allocate_all(
      "a step's rows", Wanted{inputs.rows_, num_row_words}, Wanted{inputs.tables_, num_table_words},
      Wanted{inputs.host_rows_, num_row_words}, Wanted{inputs.host_tables_, num_table_words});
  if (!allocated) return allocated.error();
  return inputs;
}

uint64_t StepInputs::bytes(uint32_t max_rows, uint32_t max_table_blocks) {
  return device_bytes(size_t{3} * max_rows, sizeof(uint32_t)) +
         device_bytes((size_t{max_rows} + 1) * max_table_blocks, sizeof(uint32_t));
}

void StepInputs::send(const Batch& batch, uint32_t num_rows, uint32_t spare_block, Stream& stream) {
  CHECK(batch.num_rows() <= num_rows && num_rows <= max_rows_ && batch.sequences.size() <= max_rows_);
  if (was_sent_) sent_.synchronize();
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
    CHECK(sequence.block_table.size() <= max_table_blocks_);
    std::ranges::fill(sequences.subspan(sequence.first_row, sequence.num_rows), index);
    std::ranges::copy(sequence.block_table,
                      host_tables_.span().subspan(size_t{index} * max_table_blocks_).begin());
  }
  host_tables_.span()[size_t{num_sequences} * max_table_blocks_] = spare_block;

  for (uint32_t part = 0; part < 3; ++part) {
    const size_t first = size_t{part} * max_rows_;
    stream.upload(rows_, first, host_rows_.part(first, num_rows));
  }
  const size_t num_table_words = (size_t{num_sequences} + 1) * max_table_blocks_;
  stream.upload(tables_, 0, host_tables_.part(0, num_table_words));
  sent_.record(stream);
  was_sent_ = true;
}

}  // namespace runnel
