#include "cpu-runner/matrix/gather.h"

#include <algorithm>

#include "runner/check.h"

namespace runnel {

void gather_columns(const Executor& executor, RankGroup& ranks, std::span<const RowRange> shares,
                    const OwnColumns& own, uint32_t num_rows, bool ready, Activation& out) {
  const uint32_t width = out.width();
  CHECK(shares.size() == ranks.num_ranks() && shares.back().end() == width);
  CHECK(uint64_t{num_rows} * width <= RankGroup::kMaxBoardFloats);
  float* const board = ranks.board();
  const RowRange& mine = shares[ranks.rank()];
  for_each_of(executor.threads, num_rows, [&](uint32_t row) {
    std::copy_n(own.columns + row * own.stride, mine.count, board + size_t{row} * width + mine.first);
  });
  ranks.meet(uint64_t{num_rows} * mine.count);
  for_each_of(executor.threads, num_rows, [&](uint32_t row) {
    std::copy_n(board + size_t{row} * width, width, out.row(row));
    if (ready) make_ready(executor, out, row);
  });
}

}  // namespace runnel
