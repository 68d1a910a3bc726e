// Attention of a few queries that share one KV head of one sequence: an online softmax (Milakov and
// Gimelshein 2018, arXiv 1805.02867) over the tiles of a split, and the merging of splits. The sums of
// different queries are independent.
#pragma once

#include "cpu-runner/kernels/attend_tile-inl.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/kv-inl.h"

namespace runnel::RUNNEL_KERNELS {

// A tile that is gathered from blocks which are smaller than a tile.
struct GatheredTile {
  alignas(64) std::byte bytes[kMaxHeadDim * kTilePositions * sizeof(float)];
};

// Copies num_rows rows of row_bytes each. They begin in_stride bytes apart in `in`, and out_stride bytes
// apart in `out`.
static void copy_rows(const std::byte* in, size_t in_stride, uint32_t num_rows, size_t row_bytes,
                      size_t out_stride, std::byte* out) {
  for (uint32_t row = 0; row < num_rows; ++row)
    __builtin_memcpy(out + row * out_stride, in + row * in_stride, row_bytes);
}

// Copies the positions begin to end - 1 of one tile to their places in a whole tile.
template <KvType kType>
static void gather_tile(const KvView& kv, uint32_t begin, uint32_t end, GatheredTile& keys,
                        GatheredTile& values) {
  constexpr size_t kBytes = kValueBytes<kType>;
  const KvLayout& layout = kv.layout;
  const uint32_t num = layout.positions;
  const size_t scales_bytes = layout.scales_bytes / num * kTilePositions;  // of the whole tile
  for (uint32_t first = begin / num * num; first < end; first += num) {
    const size_t block = kv.block_table[first / num] * kv.block_stride;
    const std::byte* key = kv.keys + block;
    const std::byte* value = kv.values + block;
    const uint32_t position = first % kTilePositions;
    if constexpr (kType == KvType::kQ8_0) {
      const uint32_t num_scales = layout.head_dim / kKvBlockValues;
      const auto copy_scales = [&](const std::byte* from, GatheredTile& to) {
        copy_rows(from, num * 2, num_scales, num * 2, kTilePositions * 2, to.bytes + position * 2);
      };
      copy_scales(key, keys);
      copy_scales(value, values);
    }
    copy_rows(key + layout.scales_bytes, num * kBytes, layout.width, num * kBytes, kTilePositions * kBytes,
              keys.bytes + scales_bytes + position * kBytes);
    __builtin_memcpy(values.bytes + scales_bytes + position * layout.width * kBytes,
                     value + layout.scales_bytes, num * layout.width * kBytes);
  }
}

// The queries that see some of the positions begin to end - 1. Queries are in the order of their positions,
// so these are neighbours.
RUNNEL_INLINE QueryRange queries_that_see(const AttendQuery* queries, uint32_t num_queries, uint32_t begin,
                                          uint32_t end) {
  QueryRange range = {0, num_queries};
  while (range.first < range.end && queries[range.first].end_position <= begin) ++range.first;
  while (range.first < range.end && queries[range.end - 1].first_position >= end) --range.end;
  return range;
}

// Offset in bytes from the keys or values of block 0 to the tile of a position, where tiles are whole.
RUNNEL_INLINE size_t place_of_tile(const KvView& kv, uint32_t first) {
  return kv.block_table[first / kv.block_size] * kv.block_stride +
         first % kv.block_size / kTilePositions * kv.layout.tile_bytes;
}

// Computes one split. Leaves the result of its tiles in state, for the returned queries, which see the split.
template <KvType kType>
static QueryRange attend_tiles(const KvView& kv, const AttendQuery* queries, uint32_t num_queries,
                               Scoring scoring, uint32_t split, AttendState& state) {
  const uint32_t split_begin = split * kSplitPositions;
  const QueryRange all = queries_that_see(queries, num_queries, split_begin, split_begin + kSplitPositions);
  clear(state, all, kv.layout.width);
  GatheredTile gathered_keys;
  GatheredTile gathered_values;
  KvTile keys;
  KvTile values;
  KvLayout whole = kv.layout;
  whole.scales_bytes = kv.layout.scales_bytes / kv.layout.positions * kTilePositions;
  for (uint32_t first = split_begin; first < split_begin + kSplitPositions; first += kTilePositions) {
    const QueryRange range = queries_that_see(queries, num_queries, first, first + kTilePositions);
    if (range.first >= range.end) continue;
    for (uint32_t i = range.first; i < range.end; ++i) state.seen[i] = seen_of_tile(queries[i], first);
    if (kv.layout.positions == kTilePositions) {
      const size_t place = place_of_tile(kv, first);
      const uint32_t next = first + kTilePositions;
      const bool is_last = next >= queries[num_queries - 1].end_position;
      keys.next = values.next =
          is_last ? 0 : static_cast<ptrdiff_t>(place_of_tile(kv, next)) - static_cast<ptrdiff_t>(place);
      open_tile<kType>(whole, kv.keys + place, keys);
      open_tile<kType>(whole, kv.values + place, values);
    } else {
      const uint32_t begin = first + state.seen[range.first].begin;
      const uint32_t end = first + state.seen[range.end - 1].end;
      keys.next = values.next = 0;
      gather_tile<kType>(kv, begin, end, gathered_keys, gathered_values);
      open_tile<kType>(whole, gathered_keys.bytes, keys);
      open_tile<kType>(whole, gathered_values.bytes, values);
    }
    attend_tile<kType>(whole, keys, values, range, scoring, state);
  }
  return all;
}

RUNNEL_INLINE QueryRange attend_tiles(const KvView& kv, const AttendQuery* queries, uint32_t num_queries,
                                      Scoring scoring, uint32_t split, AttendState& state) {
  switch (kv.layout.type) {
    case KvType::kF16:
      return attend_tiles<KvType::kF16>(kv, queries, num_queries, scoring, split, state);
    case KvType::kF32:
      return attend_tiles<KvType::kF32>(kv, queries, num_queries, scoring, split, state);
    case KvType::kQ8_0:
      return attend_tiles<KvType::kQ8_0>(kv, queries, num_queries, scoring, split, state);
  }
  __builtin_unreachable();
}

// The splits of one query that have been merged so far.
struct MergedSplits {
  alignas(64) float acc[kMaxHeadDim];
  float max;
  float sum;
};

// A sink comes before the first split.
RUNNEL_INLINE void clear(MergedSplits& merged, uint32_t head_dim, const float* sink) {
  __builtin_memset(merged.acc, 0, head_dim * sizeof(float));
  merged.max = sink == nullptr ? -__builtin_inff() : *sink;
  merged.sum = sink == nullptr ? 0.0f : 1.0f;
}

RUNNEL_INLINE void add_split(const float* acc, float max, float sum, uint32_t head_dim,
                             MergedSplits& merged) {
  const float new_max = merged.max < max ? max : merged.max;
  const float so_far = exp(broadcast(merged.max - new_max))[0];
  const float of_split = exp(broadcast(max - new_max))[0];
  merged.sum = __builtin_fmaf(merged.sum, so_far, sum * of_split);
  for (uint32_t d = 0; d < head_dim; ++d)
    merged.acc[d] = __builtin_fmaf(merged.acc[d], so_far, acc[d] * of_split);
  merged.max = new_max;
}

RUNNEL_INLINE void finish(const MergedSplits& merged, uint32_t head_dim, float* out) {
  for (uint32_t d = 0; d < head_dim; ++d) out[d] = merged.acc[d] / merged.sum;
}

static void attend(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, Scoring scoring) {
  const uint32_t head_dim = kv.layout.head_dim;
  AttendState state;
  MergedSplits merged[kMaxQueries];
  take_queries(queries, num_queries, kv.layout, state);
  for (uint32_t i = 0; i < num_queries; ++i) clear(merged[i], head_dim, queries[i].sink);
  const uint32_t first_split = queries[0].first_position / kSplitPositions;
  const uint32_t last_split = (queries[num_queries - 1].end_position - 1) / kSplitPositions;
  for (uint32_t split = first_split; split <= last_split; ++split) {
    const QueryRange range = attend_tiles(kv, queries, num_queries, scoring, split, state);
    for (uint32_t i = range.first; i < range.end; ++i)
      add_split(state.acc[i], state.max[i], state.sum[i], head_dim, merged[i]);
  }
  for (uint32_t i = 0; i < num_queries; ++i) finish(merged[i], head_dim, queries[i].out);
}

static void attend_split(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, Scoring scoring,
                         uint32_t split) {
  const uint32_t head_dim = kv.layout.head_dim;
  AttendState state;
  take_queries(queries, num_queries, kv.layout, state);
  attend_tiles(kv, queries, num_queries, scoring, split, state);
  for (uint32_t i = 0; i < num_queries; ++i) {
    __builtin_memcpy(queries[i].out, state.acc[i], head_dim * sizeof(float));
    queries[i].out[head_dim] = state.max[i];
    queries[i].out[head_dim + 1] = state.sum[i];
  }
}

static void merge_splits(const float* partials, size_t stride, uint32_t num_splits, uint32_t head_dim,
                         const float* sink, float* out) {
  MergedSplits merged;
  clear(merged, head_dim, sink);
  for (uint32_t split = 0; split < num_splits; ++split, partials += stride)
    add_split(partials, partials[head_dim], partials[head_dim + 1], head_dim, merged);
  finish(merged, head_dim, out);
}

}  // namespace runnel::RUNNEL_KERNELS
