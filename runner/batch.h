// The rows of one step: what the scheduler hands to a model, and all that a model and its backend get to see.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

// One sequence's share of a step: consecutive rows of the batch, at consecutive positions of the sequence.
struct BatchSequence {
  uint32_t first_row;       // index into Batch::token_ids
  uint32_t num_rows;        // 1 for a next token, 1 or more for a part of a prompt
  uint32_t first_position;  // position in the sequence of the first row's token
  // KV block of positions [i * block_size, (i + 1) * block_size). kNoBlock, and never to be read, where the
  // model's window leaves all of them behind.
  std::span<const uint32_t> block_table;
};

struct Batch {
  std::vector<uint32_t> token_ids;       // (num_rows)
  std::vector<uint32_t> positions;       // (num_rows) position of each token in its sequence, from 0
  std::vector<BatchSequence> sequences;  // in row order, covering all rows

  uint32_t num_rows() const { return static_cast<uint32_t>(token_ids.size()); }
};

}  // namespace runnel
