#include "cuda-runner/device_activation.h"

#include <span>

#include "runner/check.h"

namespace runnel {

Result<void> DeviceActivation::allocate() {
  const size_t count = size_t{max_rows_} * stride_;
  return allocate_all("a step's activations", Wanted{values_, count}, Wanted{quants_, count},
                      Wanted{scales_, count / kBlockColumns}, Wanted{sums_, count / kBlockColumns},
                      Wanted{half_sums_, count / kBlockColumns});
}

uint64_t DeviceActivation::num_bytes() const {
  const size_t count = size_t{max_rows_} * stride_;
  const size_t num_blocks = count / kBlockColumns;
  return device_bytes(count, sizeof(float)) + device_bytes(count, sizeof(int8_t)) +
         device_bytes(num_blocks, sizeof(float)) + 2 * device_bytes(num_blocks, sizeof(int32_t));
}

std::vector<float> DeviceActivation::read(uint32_t num_rows, Stream& stream) const {
  CHECK(num_rows <= max_rows_);
  std::vector<float> strides(size_t{num_rows} * stride_);
  stream.download(std::span(strides), values_, 0);
  stream.synchronize();
  std::vector<float> rows;
  for (uint32_t row = 0; row < num_rows; ++row) {
    const auto first = strides.begin() + static_cast<ptrdiff_t>(size_t{row} * stride_);
    rows.insert(rows.end(), first, first + width_);
  }
  return rows;
}

}  // namespace runnel
