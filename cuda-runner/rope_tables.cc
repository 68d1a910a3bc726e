#include "cuda-runner/rope_tables.h"

#include <algorithm>
#include <utility>

#include "cuda-runner/device/error.h"
#include "cuda-runner/kernels/rope_angles.h"
#include "runner/check.h"
#include "runner/numerics.h"

namespace runnel {

Result<RopeTables> RopeTables::allocate(uint32_t max_rows, uint32_t max_rotary_dim) {
  RopeTables tables;
  tables.max_pairs_ = max_rotary_dim / 2;
  const Result<void> allocated =
      allocate_all("a step's angles", Wanted{tables.angles_, size_t{max_rows} * max_rotary_dim},
                   Wanted{tables.frequencies_, kMaxRopes * tables.max_pairs_},
                   Wanted{tables.host_frequencies_, kMaxRopes * tables.max_pairs_});
  if (!allocated) return allocated.error();
  return tables;
}

Global<const float> RopeTables::angles(const Rope& rope, Global<const uint32_t> positions, uint32_t num_rows,
                                       Stream& stream) {
  CHECK(size_t{num_rows} * rope.rotary_dim <= angles_.size());
  const size_t index = index_of(rope, stream);
  if (computed_ != index) {
    const uint32_t num_pairs = rope.rotary_dim / 2;
    const Global<const double> frequencies =
        std::as_const(frequencies_).view().from(index * max_pairs_, num_pairs);
    expect_success(rope_angles(positions, num_rows, frequencies, num_pairs, angles_.view(), stream.get()),
                   "computing angles");
    computed_ = index;
  }
  return std::as_const(angles_).view();
}

size_t RopeTables::index_of(const Rope& rope, Stream& stream) {
  const auto found = std::ranges::find_if(ropes_, [&](const Rope& known) {
    return known.rotary_dim == rope.rotary_dim && known.theta == rope.theta;
  });
  const size_t index = found - ropes_.begin();
  if (found != ropes_.end()) return index;
  CHECK(index < kMaxRopes && rope.rotary_dim / 2 <= max_pairs_);
  const size_t first = index * max_pairs_;
  const uint32_t num_pairs = rope.rotary_dim / 2;
  for (uint32_t pair = 0; pair < num_pairs; ++pair)
    host_frequencies_.span()[first + pair] = exp_f64(-2.0 * pair / rope.rotary_dim * log_f64(rope.theta));
  stream.upload(frequencies_, first, host_frequencies_.part(first, num_pairs));
  ropes_.push_back(rope);
  return index;
}

}  // namespace runnel
