// The exchange of outputs among ranks (runner/ranks/rank_group.h). With one rank there is nothing to do.
#pragma once

#include <cstdint>
#include <span>

#include "cpu-runner/matrix/activation.h"
#include "cpu-runner/matrix/product.h"
#include "runner/ranks/rank_group.h"

namespace runnel {

// Some columns of rows: `columns` begins with the first of them.
struct OwnColumns {
  const float* columns;
  size_t stride;
};

// Gives every rank the columns of all. shares: the columns of each rank. own: those of this rank, which may
// lie in out. With ready, the rows are made ready for a product.
void gather_columns(const Executor& executor, RankGroup& ranks, std::span<const RowRange> shares,
                    const OwnColumns& own, uint32_t num_rows, bool ready, Activation& out);

// Calls fn(i) for i below count on all threads, a few to a chunk.
template <typename Fn>
void for_each_of(ThreadPool& threads, uint32_t count, const Fn& fn) {
  constexpr uint32_t kInChunk = 4;
  threads.parallel_for((count + kInChunk - 1) / kInChunk, [&](uint32_t chunk) {
    const uint32_t end = std::min((chunk + 1) * kInChunk, count);
    for (uint32_t i = chunk * kInChunk; i < end; ++i) fn(i);
  });
}

}  // namespace runnel
