// What lies behind an ActivationHandle: rows of floats and, for those that go into a product, the sum of each
// block of 32 values, which Q4_1 weights multiply by their minimum (docs/numerics.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu-runner/kernels/kernels.h"

namespace runnel {

class Activation {
 public:
  Activation() = default;
  Activation(uint32_t max_rows, uint32_t width)
      : width_(width),
        max_rows_(max_rows),
        stride_((width + kLanes - 1) / kLanes * kLanes),
        num_blocks_((width + kBlockColumns - 1) / kBlockColumns),
        values_(max_rows * stride_),
        sums_(max_rows * num_blocks_) {}

  uint32_t width() const { return width_; }
  uint32_t max_rows() const { return max_rows_; }
  size_t stride() const { return stride_; }
  float* row(uint32_t index) { return values_.data() + index * stride_; }
  const float* row(uint32_t index) const { return values_.data() + index * stride_; }
  float* sums(uint32_t index) { return sums_.data() + index * num_blocks_; }

  Columns columns(uint32_t first_row, uint32_t num_rows) const {
    return {row(first_row), sums_.data() + first_row * num_blocks_, stride_, num_blocks_, num_rows};
  }

 private:
  uint32_t width_ = 0;
  uint32_t max_rows_ = 0;
  size_t stride_ = 0;
  size_t num_blocks_ = 0;
  std::vector<float> values_;  // (max_rows, stride)
  std::vector<float> sums_;    // (max_rows, num_blocks)
};

}  // namespace runnel
