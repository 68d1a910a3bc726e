// What attention's kernels share: the positions that a row sees, queries that share a KV head, and the join
// of splits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/attend_variants.h"
#include "cuda-runner/kernels/lang.h"
#include "runner/backend/nonlinearity.h"
#include "runner/backend/numerics.h"

namespace runnel {

inline constexpr uint32_t kTilePositions = 32;
inline constexpr uint32_t kTileOctets = kTilePositions / kOctet;
inline constexpr uint32_t kSplitTiles = kAttendSplit / kTilePositions;
static_assert(kTilePositions == kWarpSize && kSplitTiles * kTileOctets == kWarpSize);

// The positions begin to end - 1: those that a row sees, or a part of them.
struct Positions {
  uint32_t begin;
  uint32_t end;

  __device__ bool has(uint32_t position) const { return position >= begin && position < end; }
  __device__ uint32_t nearest(uint32_t position) const { return std::clamp(position, begin, end - 1); }
  __device__ Positions within(uint32_t first, uint32_t count) const {
    return {std::max(begin, first), std::min(end, first + count)};
  }
};

__device__ inline Positions seen_from(uint32_t position, uint32_t window) {
  return {window == 0 || position < window ? 0 : position - window + 1, position + 1};
}

// Queries of a row that are computed together.
struct QueryGroup {
  uint32_t kv_head;
  uint32_t first_head;
  uint32_t num_heads;  // at least 1
};

// Group number `index`. kQueries: the most of a group.
template <uint32_t kQueries>
__device__ QueryGroup query_group(const QueryGroups& groups, uint32_t index) {
  const uint32_t kv_head = index / groups.per_kv_head;
  if constexpr (kQueries == 1) return {kv_head, index, 1};
  const uint32_t first = index % groups.per_kv_head * groups.size;
  return {kv_head, kv_head * groups.queries_per_kv_head + first,
          std::min(groups.size, groups.queries_per_kv_head - first)};
}

// Joins the splits of a query, in order.
struct SplitJoin {
  float max = -INFINITY;
  float sum = 0.0f;

  // The factors for a column's sum so far, and for its sum in the split.
  struct Factors {
    float so_far;
    float split;
  };
  __device__ Factors add(float split_max, float split_sum) {
    const float new_max = std::fmax(max, split_max);
    const Factors factors{exp_f32(max - new_max), exp_f32(split_max - new_max)};
    sum = std::fma(sum, factors.so_far, split_sum * factors.split);
    max = new_max;
    return factors;
  }
};

// What the first split of a head is joined to: its sink, if there is one.
__device__ inline SplitJoin before_splits(const AttendInputs& in, uint32_t head) {
  return in.has_sinks ? SplitJoin{in.sinks.load_read_only<float>(head), 1.0f} : SplitJoin{};
}

__device__ inline float joined(float so_far, float split, const SplitJoin::Factors& factors) {
  return std::fma(so_far, factors.so_far, split * factors.split);
}

}  // namespace runnel
