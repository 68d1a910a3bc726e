// Attention of a few queries that share one KV head of one sequence: an online softmax (Milakov and
// Gimelshein 2018, arXiv 1805.02867) over tiles of 32 positions. Each tile of K and V is widened to floats
// once and then read by every query; the queries' own sums never meet.
#pragma once

#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/kv-inl.h"
#include "cpu-runner/kernels/vector-inl.h"

namespace runnel::RUNNEL_KERNELS {

struct AttendState {
  alignas(32) float query[kMaxHeadDim];  // continued by zeros
  alignas(32) float acc[kMaxHeadDim];
  float max;
  float sum;
};

// Widens positions begin to end - 1; each row of out has dim floats, those beyond head_dim are left alone.
static void widen_rows(const std::byte* pool, const KvView& kv, uint32_t begin, uint32_t end, uint32_t dim,
                       float* out) {
  for (uint32_t position = begin; position < end; ++position, out += dim) {
    const std::byte* from = pool + kv.block_table[position / kv.block_size] * kv.block_stride +
                            position % kv.block_size * kv.row_bytes;
    widen_kv(kv.type, from, kv.head_dim, out);
  }
}

// Eight reductions at once: lane i of the result is the sum of rows[i], 4 + 4, 2 + 2, 1 + 1.
RUNNEL_INLINE Float8 sum_rows(const Float8* rows) {
  Float8 fours[4];
  Float8 twos[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // rows i and i + 4, in the two halves
    const Float8 a = rows[i];
    const Float8 b = rows[i + 4];
    fours[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
               __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {  // rows i, i + 2 | i + 4, i + 6
    const Float8 a = fours[i];
    const Float8 b = fours[i + 2];
    twos[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
              __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  const Float8 even = __builtin_shufflevector(twos[0], twos[1], 0, 8, 2, 10, 4, 12, 6, 14);
  const Float8 odd = __builtin_shufflevector(twos[0], twos[1], 1, 9, 3, 11, 5, 13, 7, 15);
  return even + odd;
}

// Lanes j + lanes j + 8 of q . k for four keys.
RUNNEL_INLINE void dot_four(const float* query, const float* keys, uint32_t dim, Float8* rows) {
  Float8 low[4] = {};
  Float8 high[4] = {};
  for (uint32_t d = 0; d < dim; d += kLanes) {
    const Float8 q_low = load(query + d);
    const Float8 q_high = load(query + d + 8);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      low[i] = fma(q_low, load(keys + i * dim + d), low[i]);
      high[i] = fma(q_high, load(keys + i * dim + d + 8), high[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) rows[i] = low[i] + high[i];
}

// acc = acc * correction, then + weights[i] * values[i] for i in order, for kVectors * 8 values of a head.
template <int kVectors>
static void accumulate(const float* values, uint32_t dim, const float* weights, uint32_t num,
                       float correction, float* acc) {
  Float8 sum[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sum[v] = load(acc + v * 8) * broadcast(correction);
  for (uint32_t i = 0; i < num; ++i) {
    const Float8 weight = broadcast(weights[i]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[v] = fma(weight, load(values + i * dim + v * 8), sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) store(acc + v * 8, sum[v]);
}

// Which of the 8 positions from first on are seen: begin to end - 1.
RUNNEL_INLINE Int8Lanes seen_lanes(uint32_t first, uint32_t begin, uint32_t end) {
  const Int8Lanes position = Int8Lanes{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<int32_t>(first);
  return (position >= static_cast<int32_t>(begin)) & (position < static_cast<int32_t>(end));
}

// One tile for one query, which sees its positions begin to end - 1.
static void attend_tile(const float* keys, const float* values, uint32_t dim, uint32_t begin, uint32_t end,
                        float scale, AttendState& state) {
  alignas(32) float weights[kTilePositions];
  const Float8 lowest = broadcast(-__builtin_inff());
  Float8 scores[kTilePositions / 8];
  Float8 maxima = lowest;
  for (uint32_t first = 0; first < kTilePositions; first += 8) {
    Float8 score = lowest;
    if (first < end && first + 8 > begin) {
      Float8 rows[8];
      dot_four(state.query, keys + first * dim, dim, rows);
      dot_four(state.query, keys + (first + 4) * dim, dim, rows + 4);
      score = sum_rows(rows) * broadcast(scale);
      score = seen_lanes(first, begin, end) ? score : lowest;
    }
    scores[first / 8] = score;
    maxima = max(maxima, score);
  }
  float new_max = state.max;
  for (int i = 0; i < 8; ++i) new_max = maxima[i] > new_max ? maxima[i] : new_max;

  const float correction = exp(broadcast(state.max - new_max))[0];
  for (uint32_t first = 0; first < kTilePositions; first += 8) {
    const Float8 weight = exp(scores[first / 8] - broadcast(new_max));
    // exp of minus infinity is clamped and above 0, so positions that are not seen are cleared by hand.
    store(weights + first, seen_lanes(first, begin, end) ? weight : broadcast(0.0f));
  }
  const Float8 low = load(weights) + load(weights + 16);
  const Float8 high = load(weights + 8) + load(weights + 24);
  state.sum = __builtin_fmaf(state.sum, correction, sum_lanes(low + high));
  state.max = new_max;

  const float* seen_values = values + begin * dim;
  const float* seen_weights = weights + begin;
  const uint32_t num = end - begin;
  uint32_t d = 0;
  for (; d + 64 <= dim; d += 64)
    accumulate<8>(seen_values + d, dim, seen_weights, num, correction, state.acc + d);
  for (; d < dim; d += kLanes)
    accumulate<2>(seen_values + d, dim, seen_weights, num, correction, state.acc + d);
}

static void attend(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, float scale) {
  // Zeros beyond head_dim, and in positions that no query sees, must be numbers: hence the initial zeros.
  alignas(32) float keys[kTilePositions * kMaxHeadDim];
  alignas(32) float values[kTilePositions * kMaxHeadDim];
  AttendState states[kMaxQueries];
  const uint32_t dim = (kv.head_dim + kLanes - 1) / kLanes * kLanes;
  __builtin_memset(keys, 0, kTilePositions * dim * sizeof(float));
  __builtin_memset(values, 0, kTilePositions * dim * sizeof(float));
  uint32_t begin = queries[0].first_position;
  uint32_t end = 0;
  for (uint32_t i = 0; i < num_queries; ++i) {
    AttendState& state = states[i];
    __builtin_memset(state.query, 0, dim * sizeof(float));
    __builtin_memset(state.acc, 0, dim * sizeof(float));
    __builtin_memcpy(state.query, queries[i].query, kv.head_dim * sizeof(float));
    state.max = -__builtin_inff();
    state.sum = 0.0f;
    if (queries[i].first_position < begin) begin = queries[i].first_position;
    if (queries[i].end_position > end) end = queries[i].end_position;
  }

  for (uint32_t first = begin / kTilePositions * kTilePositions; first < end; first += kTilePositions) {
    // Positions before begin may have no block any more.
    const uint32_t tile_begin = first < begin ? begin : first;
    const uint32_t tile_end = end - first < kTilePositions ? end : first + kTilePositions;
    const uint32_t unread = (tile_begin - first) * dim;
    widen_rows(kv.keys, kv, tile_begin, tile_end, dim, keys + unread);
    widen_rows(kv.values, kv, tile_begin, tile_end, dim, values + unread);
    for (uint32_t i = 0; i < num_queries; ++i) {
      const AttendQuery& query = queries[i];
      if (query.end_position <= first || query.first_position >= tile_end) continue;
      const uint32_t seen_begin = query.first_position > first ? query.first_position - first : 0;
      const uint32_t seen_end = query.end_position < tile_end ? query.end_position : tile_end;
      attend_tile(keys, values, dim, seen_begin, seen_end - first, scale, states[i]);
    }
  }
  for (uint32_t i = 0; i < num_queries; ++i) {
    for (uint32_t d = 0; d < kv.head_dim; ++d) queries[i].out[d] = states[i].acc[d] / states[i].sum;
  }
}

}  // namespace runnel::RUNNEL_KERNELS
