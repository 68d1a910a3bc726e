// The rows of one step: the scheduler's result, and the only input of a model and its backend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

// One sequence's part of a step: consecutive rows of the batch, at consecutive positions of the sequence.
struct BatchSequence {
  uint32_t first_row;       // index into Batch::token_ids
  uint32_t num_rows;        // 1 for a next token, more with drafts, 1 or more for a part of a prompt
  uint32_t first_position;  // position of the first row's token in the sequence
  // For each group of layers, entry i is the KV block of the positions [i * block_size, (i + 1) *
  // block_size). It is kNoBlock, and is never read, if all these positions have left the group's window.
  std::span<const std::vector<uint32_t>> block_tables;
  // Names the sequence among all of the process, from 1; 0: nobody names it.
  uint64_t serial = 0;
};

struct Batch {
  std::vector<uint32_t> token_ids;       // (num_rows)
  std::vector<uint32_t> positions;       // (num_rows) position of each token in its sequence, from 0
  std::vector<uint32_t> types;           // (num_rows) type of each token; empty: all are of the first type
  std::vector<BatchSequence> sequences;  // in the order of rows, covering all rows
  // Whether each sequence has one row, and the next step is to have the next row of each that goes on, if
  // nothing comes in between. A backend may then compute that step ahead (see Backend::head).
  bool repeats = false;

  uint32_t num_rows() const { return static_cast<uint32_t>(token_ids.size()); }
  // Cuts the other sequences off, with their rows.
  void keep_first(size_t num_sequences) {
    if (num_sequences >= sequences.size()) return;
    const uint32_t num_rows_left = sequences[num_sequences].first_row;
    token_ids.resize(num_rows_left);
    positions.resize(num_rows_left);
    if (!types.empty()) types.resize(num_rows_left);
    sequences.resize(num_sequences);
  }
};

}  // namespace runnel
