#include "cuda-runner/rope_tables.h"

#include <algorithm>
#include <utility>

#include "cuda-runner/device/error.h"
#include "cuda-runner/kernels/rope_angles.h"
#include "runner/check.h"

namespace runnel {

Result<RopeTables> RopeTables::allocate(uint32_t max_rows, std::span<const RopeSpec> ropes, Stream& stream) {
  RopeTables tables;
  for (const RopeSpec& rope : ropes) {
    Table table{.rotary_dim = rope.pairs.rotary_dim,
                .magnitude = rope.magnitude,
                .frequencies = {},
                .host_frequencies = {},
                .angles = {}};
    const size_t num_pairs = rope.frequencies.size();
    CHECK(table.rotary_dim == 2 * num_pairs);
    if (num_pairs > 0) {
      const Result<void> allocated =
          allocate_all("a step's angles", Wanted{table.angles, size_t{max_rows} * table.rotary_dim},
                       Wanted{table.frequencies, num_pairs}, Wanted{table.host_frequencies, num_pairs});
      if (!allocated) return allocated.error();
      std::ranges::copy(rope.frequencies, table.host_frequencies.span().begin());
      stream.upload(table.frequencies, 0, table.host_frequencies.part(0, num_pairs));
    }
    tables.tables_.push_back(std::move(table));
  }
  return tables;
}

uint64_t RopeTables::bytes(uint32_t max_rows, std::span<const RopeSpec> ropes) {
  uint64_t bytes = 0;
  for (const RopeSpec& rope : ropes)
    bytes += device_bytes(size_t{max_rows} * rope.pairs.rotary_dim, sizeof(float)) +
             device_bytes(rope.frequencies.size(), sizeof(double));
  return bytes;
}

void RopeTables::start_step() {
  for (Table& table : tables_) table.is_computed = false;
}

Global<const float> RopeTables::angles(size_t rope, Global<const uint32_t> positions, uint32_t num_rows,
                                       Stream& stream) {
  Table& table = tables_.at(rope);
  if (table.rotary_dim == 0) return {};
  CHECK(size_t{num_rows} * table.rotary_dim <= table.angles.size());
  if (!table.is_computed) {
    expect_success(rope_angles(positions, num_rows, std::as_const(table.frequencies).view(),
                               table.rotary_dim / 2, table.magnitude, table.angles.view(), stream.get()),
                   "computing angles");
    table.is_computed = true;
  }
  return std::as_const(table.angles).view();
}

}  // namespace runnel
