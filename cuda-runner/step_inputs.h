// The rows of the current batch in the device's memory. They are always at the same addresses, so that a
// captured graph can be launched for any batch.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda-runner/attend_plan.h"
#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pending.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/kernels/attend_work.h"
#include "cuda-runner/kernels/step_rows.h"
#include "runner/backend/batch.h"
#include "runner/result.h"

namespace runnel {

struct StepInputsShape {
  uint32_t max_rows;
  uint32_t num_groups;                        // of layers, each with tables of its own
  uint32_t max_table_blocks;                  // entries in the block table of the longest sequence
  std::vector<AttendPlanShape> attend_plans;  // one for each window that a layer has
};

class StepInputs {
 public:
  // Fails with kSystem.
  static Result<StepInputs> allocate(const StepInputsShape& shape, Stream& stream);

  // Bytes of the device's memory that allocate() takes.
  static uint64_t bytes(const StepInputsShape& shape);

  StepInputs() = default;

  // Sends the batch, padded to num_rows rows. The rows added are at position 0 of a sequence whose only block
  // is spare_block.
  void send(const Batch& batch, uint32_t num_rows, uint32_t spare_block, Stream& stream);

  Global<const uint32_t> token_ids() const { return part(0); }
  Global<uint32_t> fed_ids() { return rows_.view().from(0, max_rows_); }
  Global<const uint32_t> positions() const { return part(1); }
  // As layers of this group read them.
  StepRows rows(uint32_t group) const {
    const size_t num_words = num_group_words();
    return {part(1), part(2), tables_.view().from(group * num_words, num_words), max_table_blocks_};
  }
  // The attention of layers with this window.
  AttendWork attend_work(uint32_t window) const;

 private:
  void send_tables(const Batch& batch, uint32_t group, uint32_t spare_block, Stream& stream);

  Global<const uint32_t> part(uint32_t index) const {
    return rows_.view().from(index * max_rows_, max_rows_);
  }

  // Of the tables of a group: one for each sequence, and one with the spare block.
  size_t num_group_words() const { return (size_t{max_rows_} + 1) * max_table_blocks_; }

  struct Attend {
    uint32_t window;
    AttendPlan plan;
    uint32_t max_pieces;
    size_t first_word;  // in attend_words_
    uint64_t max_words;
  };

  uint32_t max_rows_ = 0;
  uint32_t num_groups_ = 0;
  uint32_t max_table_blocks_ = 0;
  std::vector<Attend> attends_;
  PinnedBuffer<uint32_t> host_rows_;    // (3, max_rows): token ids, positions, sequences
  PinnedBuffer<uint32_t> host_tables_;  // (num_groups, max_rows + 1, max_table_blocks)
  PinnedBuffer<uint32_t> host_attend_words_;
  DeviceBuffer<uint32_t> rows_;
  DeviceBuffer<uint32_t> tables_;
  DeviceBuffer<uint32_t> attend_words_;
  Pending sent_;  // the last copies from the pinned memory
};

}  // namespace runnel
