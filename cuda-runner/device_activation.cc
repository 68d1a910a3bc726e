#include "cuda-runner/device_activation.h"

#include <cstdint>
#include <span>
#include <string>

#include "runner/check.h"

namespace runnel {

Result<void> DeviceActivation::allocate(Stream& stream) {
  const size_t num_bytes = size_t{row_capacity_} * stride_;
  // Products count bytes in 32 bits.
  if (num_bytes > UINT32_MAX) {
    return Error{ExitCode::kSystem, "A step's " + std::to_string(row_capacity_) + " rows of " +
                                        std::to_string(stride_) +
                                        " columns are too many: together they may have 4294967295. Lower "
                                        "--max-num-seqs or --max-num-batched-tokens."};
  }
  const size_t num_blocks = num_bytes / kBlockColumns;
  const Result<void> allocated = allocate_all(
      "a step's activations", Wanted{values_, size_t{max_rows_} * stride_}, Wanted{quants_, num_bytes},
      Wanted{scales_, num_blocks}, Wanted{scaled_sums_, num_blocks}, Wanted{half_sums_, num_blocks});
  if (!allocated) return allocated;
  stream.fill_with_zeros(values_);
  stream.fill_with_zeros(quants_);
  stream.fill_with_zeros(scales_);
  stream.fill_with_zeros(scaled_sums_);
  stream.fill_with_zeros(half_sums_);
  return {};
}

uint64_t DeviceActivation::num_bytes() const {
  const size_t count = size_t{row_capacity_} * stride_;
  const size_t num_blocks = count / kBlockColumns;
  return device_bytes(size_t{max_rows_} * stride_, sizeof(float)) + device_bytes(count, sizeof(int8_t)) +
         2 * device_bytes(num_blocks, sizeof(float)) + device_bytes(num_blocks, sizeof(int32_t));
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
