#include "cuda-runner/rope_tables.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "cuda-runner/device/error.h"
#include "cuda-runner/kernels/rope_angles.h"
#include "runner/check.h"
#include "runner/numerics.h"

namespace runnel {

Result<RopeTables> RopeTables::allocate(uint32_t max_rows, uint32_t max_rotary_dim) {
  auto angles = DeviceBuffer<float>::allocate(size_t{max_rows} * max_rotary_dim, "a step's angles");
  if (!angles) return angles.error();
  RopeTables tables;
  tables.angles_ = *std::move(angles);
  return tables;
}

Global<const float> RopeTables::angles(const Rope& rope, Global<const uint32_t> positions, uint32_t num_rows,
                                       Stream& stream) {
  CHECK(size_t{num_rows} * rope.rotary_dim <= angles_.size());
  const Frequencies& wanted = frequencies(rope, stream);
  if (computed_ != &wanted) {
    expect_success(rope_angles(positions, num_rows, std::as_const(wanted.values).view(), rope.rotary_dim / 2,
                               angles_.view(), stream.get()),
                   "computing angles");
    computed_ = &wanted;
  }
  return std::as_const(angles_).view();
}

const RopeTables::Frequencies& RopeTables::frequencies(const Rope& rope, Stream& stream) {
  const auto found = std::ranges::find_if(frequencies_, [&](const Frequencies& entry) {
    return entry.rope.rotary_dim == rope.rotary_dim && entry.rope.theta == rope.theta;
  });
  if (found != frequencies_.end()) return *found;
  std::vector<double> values(rope.rotary_dim / 2);
  for (uint32_t pair = 0; pair < values.size(); ++pair)
    values[pair] = exp_f64(-2.0 * pair / rope.rotary_dim * log_f64(rope.theta));
  auto buffer = DeviceBuffer<double>::allocate(values.size(), "rotation");
  CHECK(buffer.ok());  // some hundred bytes
  stream.upload(*buffer, 0, std::span<const double>(values));
  return frequencies_.emplace_back(rope, *std::move(buffer));
}

}  // namespace runnel
