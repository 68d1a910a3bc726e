// The step that a device computes before the host knows the tokens of the one before it: the next row of each
// sequence. The device passes the drawn ids on (kernels/feed.h), so it does not wait while the host reads
// them, tells the clients and plans. The scheduler knows nothing of this: when the next batch comes, those of
// its rows that were computed ahead are left out. A row that does not come, since its sequence was stopped,
// cancelled or paused, was computed for nothing. What it stored is at a position that counts as empty, and
// work that is given to the device later writes over it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runner/backend/batch.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

class StepAhead {
 public:
  // What a step ahead computes. The batch has the numbers of draws, counted in the last launch of draws, in
  // place of token ids, and each of its rows has a draw.
  struct Next {
    Batch batch;
    std::vector<HeadRow> rows;
  };

  // Forgets the step ahead. block_size: tokens in a block of the KV cache. max_rows: of a step ahead.
  void start(uint32_t block_size, uint32_t max_rows) {
    block_size_ = block_size;
    max_rows_ = max_rows;
    is_under_way_ = false;
  }

  // A batch has come: finds the rows of it that the step ahead has, which is over with this.
  void begin(const Batch& batch);
  // What is left to be computed: the batch itself if it has no row of the step ahead.
  const Batch& rest() const { return *rest_; }
  // The number of this row of the batch in the step ahead, if it is one of its rows.
  std::optional<uint32_t> computed(uint32_t row) const {
    return computed_.empty() ? std::nullopt : computed_[row];
  }
  // The number of another row of the batch in the rest.
  uint32_t rest_row(uint32_t row) const { return rest_rows_.empty() ? row : rest_rows_[row]; }

  // The step after that of the last batch, of which these rows are needed. Nothing if the batch does not
  // repeat, if something is asked for that a device does not know before the host, if a sequence has no place
  // for its next row, or if the batch had rows both of the step ahead and of others. What the result refers
  // to lives as long as that of the last batch and of the rows.
  std::optional<Next> next(std::span<const HeadRow> rows) const;
  // This batch is being computed. The results of the last one are read only from now on.
  void launched(const Batch& batch);
  bool is_under_way() const { return is_under_way_; }

  // Rows that had been computed when their batch came.
  uint64_t num_rows() const { return num_rows_; }

 private:
  struct Row {
    uint64_t serial;  // of its sequence
    uint32_t position;

    bool operator==(const Row&) const = default;
  };
  // Sets the rest of a batch that has rows of the step ahead.
  void split(const Batch& batch);
  // The block of the position in each group of layers.
  void append_blocks(const BatchSequence& sequence, uint32_t position, std::vector<uint32_t>& blocks) const;

  uint32_t block_size_ = 0;
  uint32_t max_rows_ = 0;
  // The step ahead.
  std::vector<Row> rows_;
  std::vector<uint32_t> blocks_;  // (rows, groups)
  bool is_under_way_ = false;
  // The last batch; null: there was none.
  const Batch* rest_ = nullptr;
  Batch split_;                                    // what rest_ points to if the batch had rows of both
  std::vector<std::optional<uint32_t>> computed_;  // by row of the batch; empty: none is
  std::vector<uint32_t> rest_rows_;                // by row of the batch; empty: all are in the rest
  std::vector<BatchSequence> followed_;            // its sequences, if it repeats
  uint64_t num_rows_ = 0;
};

}  // namespace runnel
