// The parts that both kinds of attention kernels share: the scores of a tile of positions, one position for
// each lane; the sums of the values of an octet of positions, one column for each lane; and the join of
// splits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/device_kv-inl.h"
#include "runner/backend/numerics.h"

namespace runnel {

inline constexpr uint32_t kTilePositions = 32;
inline constexpr uint32_t kTileOctets = kTilePositions / kOctet;
inline constexpr uint32_t kSplitTiles = 8;
inline constexpr uint32_t kSplitPositions = kSplitTiles * kTilePositions;
static_assert(kTilePositions == kWarpSize);

// The positions begin to end - 1: those that a row sees, or a part of them.
struct Positions {
  uint32_t begin;
  uint32_t end;

  __device__ bool has(uint32_t position) const { return position >= begin && position < end; }
  __device__ Positions within(uint32_t first, uint32_t count) const {
    return {std::max(begin, first), std::min(end, first + count)};
  }
  __device__ bool is_empty() const { return begin >= end; }
};

__device__ inline Positions seen_from(uint32_t position, uint32_t window) {
  return {window == 0 || position < window ? 0 : position - window + 1, position + 1};
}

// Queries of a row that share a KV head, so that its keys and values are read once for all of them.
struct QueryGroup {
  uint32_t kv_head;
  uint32_t first_head;
  uint32_t num_heads;  // at least 1
};

RUNNEL_HOST_DEVICE inline uint32_t groups_per_kv_head(const AttentionShape& shape, uint32_t max_queries) {
  return (shape.num_heads / shape.num_kv_heads + max_queries - 1) / max_queries;
}

template <uint32_t kQueries>
__device__ inline QueryGroup query_group(const AttentionShape& shape, uint32_t index) {
  const uint32_t queries_per_kv = shape.num_heads / shape.num_kv_heads;
  const uint32_t num_groups = groups_per_kv_head(shape, kQueries);
  const uint32_t first = index % num_groups * kQueries;
  const uint32_t kv_head = index / num_groups;
  return {kv_head, kv_head * queries_per_kv + first, std::min(kQueries, queries_per_kv - first)};
}

// Writes queries (kQueries, kDim), from element `first` on. Columns beyond the head are zeros; queries that
// the group lacks are copies of its last one. Called by num_threads threads, of which this is number
// `thread`.
template <uint32_t kQueries, uint32_t kDim, size_t kSize>
__device__ inline void load_queries(const AttendInputs& in, uint32_t row, const QueryGroup& group,
                                    uint32_t thread, uint32_t num_threads, Shared<float, kSize>& queries,
                                    uint32_t first) {
  for (uint32_t i = thread; i < kQueries * kDim; i += num_threads) {
    const uint32_t head = group.first_head + std::min(i / kDim, group.num_heads - 1);
    const uint32_t column = i % kDim;
    const size_t index = static_cast<size_t>(row) * in.qkv.stride + head * in.shape.head_dim + column;
    queries[first + i] = column < in.shape.head_dim ? in.qkv.values[index] : 0.0f;
  }
}

// scores[q] = scale * (query q . the key of a position). keys: the offset of the run of keys. first: the
// element at which the queries begin.
template <KvType kType, uint32_t kQueries, uint32_t kDim, size_t kSize>
__device__ inline void score(const DeviceKv& kv, size_t keys, uint32_t position_in_block, float scale,
                             Shared<float, kSize>& queries, uint32_t first, float (&scores)[kQueries]) {
  float sums[kQueries][4] = {};
  const uint32_t num_octets = kv.num_octets();
  // The number of octets whose loads are pending at a time: 64 bytes for each lane, 32 for Q8_0.
  [[maybe_unused]] constexpr uint32_t kAtOnce = kType == KvType::kF32 ? 2 : 4;
#pragma unroll kAtOnce
  for (uint32_t octet = 0; octet < num_octets; ++octet) {
    float key[kOctet];
    load_key<kType>(kv, keys, octet, position_in_block, key);
    for (uint32_t q = 0; q < kQueries; ++q) {
      for (uint32_t half = 0; half < 2; ++half) {
        const auto query = queries.template load<float4>(first + q * kDim + octet * kOctet + 4 * half);
        sums[q][0] = std::fma(query.x, key[4 * half], sums[q][0]);
        sums[q][1] = std::fma(query.y, key[4 * half + 1], sums[q][1]);
        sums[q][2] = std::fma(query.z, key[4 * half + 2], sums[q][2]);
        sums[q][3] = std::fma(query.w, key[4 * half + 3], sums[q][3]);
      }
    }
  }
  for (uint32_t q = 0; q < kQueries; ++q)
    scores[q] = ((sums[q][0] + sums[q][1]) + (sums[q][2] + sums[q][3])) * scale;
}

// The places of a tile's values and of their weights.
struct ValueTile {
  uint32_t kv_head;
  uint32_t first_position;
  // The KV block of the tile's octet i is the `block` of lane first_lane + i * lane_step.
  uint32_t block;
  uint32_t first_lane;
  uint32_t lane_step;
  // The weights are in shared memory, (query, weights_stride); those of the tile begin at first_weight. The
  // weight of a position that is not seen is 0.
  uint32_t first_weight;
  uint32_t weights_stride;
};

// acc[q][c] += weight * value, position by position, for an octet of the tile and column first_column + 32 *
// c + lane(). kIsWhole: all positions of the octet are seen.
template <KvType kType, bool kIsWhole, uint32_t kQueries, uint32_t kChunks, size_t kSize>
__device__ inline void add_octet(const AttendInputs& in, const ValueTile& tile, uint32_t octet,
                                 const Positions& seen, uint32_t first_column, Shared<float, kSize>& weights,
                                 float (&acc)[kQueries][kChunks]) {
  const uint32_t first_position = tile.first_position + octet * kOctet;
  const uint32_t octet_in_block = in.kv.position_in_block(first_position) / kOctet;
  const uint32_t block = shuffle(tile.block, tile.first_lane + octet * tile.lane_step);
  const size_t run = in.kv.keys_of(in.layer, block, tile.kv_head) + in.kv.run_bytes();
  float value[kChunks][kOctet];
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    const uint32_t column = first_column + chunk * kWarpSize + lane();
    load_value<kType>(in.kv, run, octet_in_block, std::min(column, in.kv.head_dim - 1), value[chunk]);
    if constexpr (!kIsWhole) {
      // A value that is not seen may be NaN or infinite. It is replaced, since 0 times it would be NaN.
      for (uint32_t i = 0; i < kOctet; ++i)
        value[chunk][i] = seen.has(first_position + i) ? value[chunk][i] : 0.0f;
    }
  }
  for (uint32_t q = 0; q < kQueries; ++q) {
    const uint32_t first_weight = tile.first_weight + q * tile.weights_stride + octet * kOctet;
    const auto low = weights.template load<float4>(first_weight);
    const auto high = weights.template load<float4>(first_weight + 4);
    const float weight[kOctet] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      for (uint32_t i = 0; i < kOctet; ++i)
        acc[q][chunk] = std::fma(weight[i], value[chunk][i], acc[q][chunk]);
    }
  }
}

// Calls add_octet for all octets of a tile.
template <KvType kType, uint32_t kQueries, uint32_t kChunks, size_t kSize>
__device__ inline void add_values(const AttendInputs& in, const ValueTile& tile, const Positions& seen,
                                  uint32_t first_column, Shared<float, kSize>& weights,
                                  float (&acc)[kQueries][kChunks]) {
  // The number of octets whose loads are pending at a time. More chunks leave fewer registers for loads.
  [[maybe_unused]] constexpr uint32_t kAtOnce = kChunks == 1 ? 4 : kChunks == 2 ? 2 : 1;
  if (seen.begin <= tile.first_position && seen.end >= tile.first_position + kTilePositions) {
#pragma unroll kAtOnce
    for (uint32_t octet = 0; octet < kTileOctets; ++octet)
      add_octet<kType, true>(in, tile, octet, seen, first_column, weights, acc);
  } else {
#pragma unroll 1
    for (uint32_t octet = 0; octet < kTileOctets; ++octet)
      add_octet<kType, false>(in, tile, octet, seen, first_column, weights, acc);
  }
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

__device__ inline float joined(float so_far, float split, const SplitJoin::Factors& factors) {
  return std::fma(so_far, factors.so_far, split * factors.split);
}

}  // namespace runnel
