// The rows that flow between two operations, in the device's memory: floats, and the same rows ready for a
// product (kernels/ready_rows.h).
#pragma once

#include <cstdint>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/exchange.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows.h"
#include "runner/result.h"

namespace runnel {

class DeviceActivation {
 public:
  // Allocates nothing; see allocate().
  DeviceActivation(uint32_t max_rows, uint32_t width)
      : max_rows_(max_rows),
        width_(width),
        stride_((width + kBlockColumns - 1) / kBlockColumns * kBlockColumns),
        row_capacity_((max_rows + kRowGroup - 1) / kRowGroup * kRowGroup) {}

  // Fills what products read with zeros. Fails with kSystem.
  Result<void> allocate(Stream& stream);
  // Bytes of the device's memory that allocate() takes.
  uint64_t num_bytes() const;

  uint32_t width() const { return width_; }
  uint32_t max_rows() const { return max_rows_; }
  // Copies the first rows to the host: (num_rows, width). Waits for the device.
  std::vector<float> read(uint32_t num_rows, Stream& stream) const;
  // From column `first` on.
  FloatRows floats(uint32_t first = 0) {
    return {values_.view().from(first, values_.size() - first), stride_};
  }
  DeviceColumns columns() { return {&values_, stride_, 0}; }
  ReadyRows ready() {
    return {.values = values_.view(),
            .quants = quants_.view(),
            .scales = scales_.view(),
            .scaled_sums = scaled_sums_.view(),
            .half_sums = half_sums_.view(),
            .width = width_,
            .stride = stride_,
            .row_capacity = row_capacity_};
  }

 private:
  uint32_t max_rows_;
  uint32_t width_;
  uint32_t stride_;
  uint32_t row_capacity_;
  DeviceBuffer<float> values_;
  DeviceBuffer<int8_t> quants_;
  DeviceBuffer<float> scales_;
  DeviceBuffer<float> scaled_sums_;
  DeviceBuffer<int32_t> half_sums_;
};

}  // namespace runnel
