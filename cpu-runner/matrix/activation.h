// The rows that flow between two operations. Rows that go into a product also have what the product reads:
// for each block of 32 values the values as signed bytes, their scale and their sums (docs/numerics.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu-runner/kernels/product.h"

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
        quants_(max_rows * stride_),
        scales_(max_rows * num_blocks_),
        sums_(max_rows * num_blocks_),
        quant_sums_(max_rows * num_blocks_),
        half_sums_(max_rows * num_blocks_) {}

  // Bytes that this many rows take.
  static uint64_t bytes(uint32_t max_rows, uint32_t width) {
    constexpr uint64_t kBytesOfBlock =
        kBlockColumns * (sizeof(float) + sizeof(int8_t)) + 2 * sizeof(float) + 2 * sizeof(int32_t);
    return max_rows * ((uint64_t{width} + kBlockColumns - 1) / kBlockColumns) * kBytesOfBlock;
  }

  uint32_t width() const { return width_; }
  uint32_t max_rows() const { return max_rows_; }
  size_t stride() const { return stride_; }
  float* row(uint32_t index) { return values_.data() + index * stride_; }
  const float* row(uint32_t index) const { return values_.data() + index * stride_; }

  // Copies a row of another activation of the same width, with what products read of it.
  void copy_row(uint32_t to, const Activation& other, uint32_t from) {
    std::copy_n(other.row(from), stride_, row(to));
    std::copy_n(other.quants_.data() + from * stride_, stride_, quants_.data() + to * stride_);
    std::copy_n(other.scales_.data() + from * num_blocks_, num_blocks_, scales_.data() + to * num_blocks_);
    std::copy_n(other.sums_.data() + from * num_blocks_, num_blocks_, sums_.data() + to * num_blocks_);
    std::copy_n(other.quant_sums_.data() + from * num_blocks_, num_blocks_,
                quant_sums_.data() + to * num_blocks_);
    std::copy_n(other.half_sums_.data() + from * num_blocks_, num_blocks_,
                half_sums_.data() + to * num_blocks_);
  }

  // The blocks of a row, from the block that begins at this column on.
  ReadyBlocks blocks(uint32_t row, uint32_t first_column) {
    const size_t block = row * num_blocks_ + first_column / kBlockColumns;
    return {quants_.data() + block * kBlockColumns, scales_.data() + block, sums_.data() + block,
            quant_sums_.data() + block, half_sums_.data() + block};
  }
  Columns columns(uint32_t first_row, uint32_t num_rows) const {
    const size_t block = first_row * num_blocks_;
    return {row(first_row),
            quants_.data() + first_row * stride_,
            scales_.data() + block,
            sums_.data() + block,
            quant_sums_.data() + block,
            half_sums_.data() + block,
            stride_,
            num_blocks_,
            num_rows};
  }

 private:
  uint32_t width_ = 0;
  uint32_t max_rows_ = 0;
  size_t num_blocks_ = 0;
  size_t stride_ = 0;
  // (max_rows, stride); the columns from width on are zeros.
  std::vector<float> values_;
  std::vector<int8_t> quants_;
  // (max_rows, num_blocks)
  std::vector<float> scales_;
  std::vector<float> sums_;
  std::vector<int32_t> quant_sums_;
  std::vector<int32_t> half_sums_;
};

}  // namespace runnel
