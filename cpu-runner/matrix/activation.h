// The rows that flow between two operations. Rows that go into a product also have what the product reads:
// for each block of 32 values the values as signed bytes, their scale and their sums (docs/numerics.md). Each
// NUMA node has a copy of that in its own memory, because every product reads all of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu-runner/kernels/product.h"
#include "cpu-runner/thread_pool.h"
#include "runner/check.h"
#include "runner/system/memory.h"

namespace runnel {

class Activation {
 public:
  Activation() = default;
  // With one copy of the blocks, for the first node: for threads of one node, and for rows that go into no
  // product.
  Activation(uint32_t max_rows, uint32_t width)
      : width_(width),
        max_rows_(max_rows),
        num_blocks_((width + kBlockColumns - 1) / kBlockColumns),
        stride_(num_blocks_ * kBlockColumns),
        values_(max_rows * stride_),
        copies_(1, Panels(num_panels(max_rows) * num_blocks_)) {}
  // With a copy for each node of these threads.
  Activation(uint32_t max_rows, uint32_t width, ThreadPool& threads) : Activation(max_rows, width) {
    copies_.resize(threads.num_nodes());
    // Memory comes from the node whose thread writes to it first.
    threads.for_each_node([&](uint32_t node) { copies_[node].resize(copies_.front().size()); });
  }

  // Bytes that this many rows take with so many copies.
  static uint64_t bytes(uint32_t max_rows, uint32_t width, uint32_t num_copies = 1) {
    const uint64_t num_blocks = (uint64_t{width} + kBlockColumns - 1) / kBlockColumns;
    return num_blocks * (max_rows * kBlockColumns * sizeof(float) +
                         num_copies * num_panels(max_rows) * sizeof(ReadyPanel));
  }

  uint32_t width() const { return width_; }
  uint32_t max_rows() const { return max_rows_; }
  size_t stride() const { return stride_; }
  float* row(uint32_t index) { return values_.data() + index * stride_; }
  const float* row(uint32_t index) const { return values_.data() + index * stride_; }

  // Copies a row of another activation of the same width, with what products read of it.
  void copy_row(uint32_t to, const Activation& other, uint32_t from) {
    std::copy_n(other.row(from), stride_, row(to));
    for (uint32_t column = 0; column < width_; column += kBlockColumns)
      *block(to, column) = *other.block(from, column);
    copy_blocks(to, 0, static_cast<uint32_t>(num_blocks_), kPanelRows);
  }

  // The block of a row that begins at this column, in the first copy. The next one is kPanelRows further on.
  ReadyBlock* block(uint32_t row, uint32_t first_column) {
    return copies_.front()[panel(row, first_column)].rows + row % kPanelRows;
  }
  const ReadyBlock* block(uint32_t row, uint32_t first_column) const {
    return copies_.front()[panel(row, first_column)].rows + row % kPanelRows;
  }
  // Copies the first copy's blocks to the others: `count` of them, the first of which begins at this column
  // of the row, and the others stride blocks apart.
  void copy_blocks(uint32_t row, uint32_t first_column, uint32_t count, size_t stride) {
    const ReadyBlock* from = block(row, first_column);
    for (size_t node = 1; node < copies_.size(); ++node) {
      ReadyBlock* to = copies_[node][panel(row, first_column)].rows + row % kPanelRows;
      for (size_t i = 0; i < count; ++i) to[i * stride] = from[i * stride];
    }
  }
  // For threads of this node.
  Columns columns(uint32_t first_row, uint32_t num_rows, uint32_t node) const {
    RUNNEL_CHECK(node < copies_.size());
    return {values_.data(), copies_[node].data(), stride_, num_blocks_, first_row, num_rows};
  }

 private:
  using Panels = std::vector<ReadyPanel>;  // (panels of rows, num_blocks)

  size_t panel(uint32_t row, uint32_t first_column) const {
    return row / kPanelRows * num_blocks_ + first_column / kBlockColumns;
  }
  static constexpr uint64_t num_panels(uint64_t max_rows) { return (max_rows + kPanelRows - 1) / kPanelRows; }

  uint32_t width_ = 0;
  uint32_t max_rows_ = 0;
  size_t num_blocks_ = 0;
  size_t stride_ = 0;
  ZeroedVector<float> values_;  // (max_rows, stride); the columns from width on are zeros
  std::vector<Panels> copies_;  // of the blocks, one for each node
};

}  // namespace runnel
