// The rows that flow between two operations. Rows that go into a product also have what the product reads:
// for each block of 32 values the values as signed bytes, their scale and their sums (docs/numerics.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu-runner/kernels/product.h"
#include "runner/system/memory.h"

namespace runnel {

class Activation {
 public:
  Activation() = default;
  Activation(uint32_t max_rows, uint32_t width)
      : width_(width),
        max_rows_(max_rows),
        num_blocks_((width + kBlockColumns - 1) / kBlockColumns),
        stride_(num_blocks_ * kBlockColumns),
        values_(max_rows * stride_),
        panels_(num_panels(max_rows) * num_blocks_) {}

  // Bytes that this many rows take.
  static uint64_t bytes(uint32_t max_rows, uint32_t width) {
    const uint64_t num_blocks = (uint64_t{width} + kBlockColumns - 1) / kBlockColumns;
    return num_blocks *
           (max_rows * kBlockColumns * sizeof(float) + num_panels(max_rows) * sizeof(ReadyPanel));
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
  }

  // The block of a row that begins at this column. The next one is kPanelRows further on.
  ReadyBlock* block(uint32_t row, uint32_t first_column) {
    return panels_[row / kPanelRows * num_blocks_ + first_column / kBlockColumns].rows + row % kPanelRows;
  }
  const ReadyBlock* block(uint32_t row, uint32_t first_column) const {
    return panels_[row / kPanelRows * num_blocks_ + first_column / kBlockColumns].rows + row % kPanelRows;
  }
  Columns columns(uint32_t first_row, uint32_t num_rows) const {
    return {values_.data(), panels_.data(), stride_, num_blocks_, first_row, num_rows};
  }

 private:
  static constexpr uint64_t num_panels(uint64_t max_rows) { return (max_rows + kPanelRows - 1) / kPanelRows; }

  uint32_t width_ = 0;
  uint32_t max_rows_ = 0;
  size_t num_blocks_ = 0;
  size_t stride_ = 0;
  ZeroedVector<float> values_;      // (max_rows, stride); the columns from width on are zeros
  std::vector<ReadyPanel> panels_;  // (panels of rows, num_blocks)
};

}  // namespace runnel
