// One tile of attention, for some queries at once. Scores and weighted values have the same loop: a row of
// the tile, times a factor of each query, is added to that query's lanes. A tile of keys has a row for each
// value of the head, a tile of values one for each position.
#pragma once

#include "cpu-runner/kernels/exp-inl.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/kv-inl.h"
#include "cpu-runner/kernels/wide-inl.h"

namespace runnel::RUNNEL_KERNELS {

// Vectors of sums that stay in registers. A quarter of them is left for rows and factors.
static constexpr int kSums = kNumRegisters * 3 / 4;
// Limit of the queries at once, with two vectors each.
static constexpr int kMaxWidth = kSums / 2;
// A score is the sum of four chains of sums (docs/numerics.md).
static constexpr int kChains = 4;

// The positions of a tile that a query sees.
struct SeenPositions {
  uint32_t begin;
  uint32_t end;
};

struct QueryRange {
  uint32_t first;
  uint32_t end;
};

struct AttendState {
  // A constant, since the inner loop computes addresses with it. It is no power of two, so that the rows of
  // the queries do not meet in the same sets of the cache.
  static constexpr size_t kStride = kMaxHeadDim + 16;

  alignas(64) float query[kMaxQueries][kStride];
  alignas(64) float acc[kMaxQueries][kStride];
  alignas(64) float weights[kMaxQueries][kTilePositions];  // scores at first
  float correction[kMaxQueries];
  float max[kMaxQueries];
  float sum[kMaxQueries];
  SeenPositions seen[kMaxQueries];
};

RUNNEL_INLINE void take_queries(const AttendQuery* queries, uint32_t num_queries, const KvLayout& layout,
                                AttendState& state) {
  for (uint32_t i = 0; i < num_queries; ++i) {
    __builtin_memcpy(state.query[i], queries[i].query, layout.head_dim * sizeof(float));
    for (uint32_t d = layout.head_dim; d < layout.width; ++d) state.query[i][d] = 0.0f;
  }
}

RUNNEL_INLINE void clear(AttendState& state, QueryRange range, uint32_t width) {
  for (uint32_t i = range.first; i < range.end; ++i) {
    __builtin_memset(state.acc[i], 0, width * sizeof(float));
    state.max[i] = -__builtin_inff();
    state.sum[i] = 0.0f;
  }
}

RUNNEL_INLINE SeenPositions seen_of_tile(const AttendQuery& query, uint32_t first) {
  return {query.first_position > first ? query.first_position - first : 0,
          query.end_position - first < kTilePositions ? query.end_position - first : kTilePositions};
}

// sums[chain][query] += factors[query][i] * (row i of the tile), where i = first + chain, for first = begin,
// begin + step, ....
template <int kNumChains, int kQueries, int kVectors, size_t kFactorStride, typename Rows>
RUNNEL_INLINE void add_rows(const float* factors, const Rows& rows, uint32_t begin, uint32_t end,
                            uint32_t step, Wide (&sums)[kNumChains][kQueries][kVectors]) {
  for (uint32_t first = begin; first < end; first += step) {
#pragma GCC unroll 4
    for (int chain = 0; chain < kNumChains; ++chain) {
      const uint32_t row = first + static_cast<uint32_t>(chain);
      const float* factor_of_row = factors + row;
      Wide values[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) values[v] = rows.load(row, static_cast<uint32_t>(v));
#pragma GCC unroll 12
      for (int q = 0; q < kQueries; ++q) {
        const Wide factor = broadcast_wide(factor_of_row[q * kFactorStride]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[chain][q][v] = fma(factor, values[v], sums[chain][q][v]);
      }
    }
  }
}

// Sums kNumChains chains from first_chain on, for two vectors of positions, and adds the chains in pairs.
template <int kNumChains, int kQueries, typename Rows>
RUNNEL_INLINE void sum_chains(const float* query, const Rows& rows, uint32_t width, uint32_t first_chain,
                              Wide (&sums)[kQueries][2]) {
  Wide chains[kNumChains][kQueries][2] = {};
  add_rows<kNumChains, kQueries, 2, AttendState::kStride>(query, rows, first_chain, width, kChains, chains);
#pragma GCC unroll 12
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      Wide sum = chains[0][q][v];
      if constexpr (kNumChains >= 2) sum = sum + chains[1][q][v];
      if constexpr (kNumChains == 4) sum = sum + (chains[2][q][v] + chains[3][q][v]);
      sums[q][v] = sum;
    }
  }
}

template <int kQueries>
RUNNEL_INLINE void store_sums(const Wide (&sums)[kQueries][2], float* out) {
#pragma GCC unroll 12
  for (int q = 0; q < kQueries; ++q) {
    float* out_of_query = out + size_t(q) * kTilePositions;
    store_wide(out_of_query, sums[q][0]);
    store_wide(out_of_query + kWideLanes, sums[q][1]);
  }
}

// out = out + sums, or out + (between + sums) if there is a between.
template <int kQueries>
RUNNEL_INLINE void add_sums(const Wide (&sums)[kQueries][2], const float* between, float* out) {
#pragma GCC unroll 12
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const size_t place = size_t(q) * kTilePositions + size_t(v) * kWideLanes;
      Wide sum = sums[q][v];
      if (between != nullptr) sum = load_wide(between + place) + sum;
      store_wide(out + place, load_wide(out + place) + sum);
    }
  }
}

// q . k for all positions of the tile, seen or not. Computes as many chains at once as registers allow.
template <KvType kType, int kQueries>
RUNNEL_APART void score_tile(const KvLayout& layout, const KvTile& keys, const float* query, float* scores) {
  for (uint32_t lane = 0; lane < kTilePositions; lane += 2 * kWideLanes) {
    const KeyRows<kType> rows(keys, lane);
    Wide sums[kQueries][2];
    if constexpr (kQueries * 2 * 4 <= kSums) {
      sum_chains<4>(query, rows, layout.width, 0, sums);
      store_sums(sums, scores + lane);
    } else if constexpr (kQueries * 2 * 2 <= kSums) {
      sum_chains<2>(query, rows, layout.width, 0, sums);
      store_sums(sums, scores + lane);
      sum_chains<2>(query, rows, layout.width, 2, sums);
      add_sums(sums, nullptr, scores + lane);
    } else {
      alignas(64) float third[kQueries * kTilePositions];
      sum_chains<1>(query, rows, layout.width, 0, sums);
      store_sums(sums, scores + lane);
      sum_chains<1>(query, rows, layout.width, 1, sums);
      add_sums(sums, nullptr, scores + lane);
      sum_chains<1>(query, rows, layout.width, 2, sums);
      store_sums(sums, third);
      sum_chains<1>(query, rows, layout.width, 3, sums);
      add_sums(sums, third, scores + lane);
    }
  }
}

// acc = acc * correction, then + weights[i] * values[i] for the positions seen, in order. Handles kVectors
// vectors of a head, from value first on.
template <KvType kType, int kQueries, int kVectors>
RUNNEL_INLINE void add_values(const KvLayout& layout, const KvTile& values, const float* weights,
                              const float* corrections, SeenPositions seen, uint32_t first, float* acc) {
  Wide sums[1][kQueries][kVectors];
#pragma GCC unroll 12
  for (int q = 0; q < kQueries; ++q) {
    const Wide correction = broadcast_wide(corrections[q]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const size_t place = q * AttendState::kStride + size_t(v) * kWideLanes;
      sums[0][q][v] = load_wide(acc + first + place) * correction;
    }
  }
  const ValueRows<kType> rows(values, layout.width, first);
  add_rows<1, kQueries, kVectors, kTilePositions>(weights, rows, seen.begin, seen.end, 1, sums);
#pragma GCC unroll 12
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const size_t place = q * AttendState::kStride + size_t(v) * kWideLanes;
      store_wide(acc + first + place, sums[0][q][v]);
    }
  }
}

// The same for whole heads.
template <KvType kType, int kQueries>
RUNNEL_APART void add_tile(const KvLayout& layout, const KvTile& values, const float* weights,
                           const float* corrections, SeenPositions seen, float* acc) {
  uint32_t d = 0;
  // With few queries, sums of two vectors each would leave the adders waiting.
  if constexpr (kQueries * 4 <= 12) {
    for (; d + 4 * kWideLanes <= layout.width; d += 4 * kWideLanes)
      add_values<kType, kQueries, 4>(layout, values, weights, corrections, seen, d, acc);
  }
  for (; d + 2 * kWideLanes <= layout.width; d += 2 * kWideLanes)
    add_values<kType, kQueries, 2>(layout, values, weights, corrections, seen, d, acc);
  // Widths are multiples of 16.
  if constexpr (kWideLanes == 16) {
    if (d < layout.width) add_values<kType, kQueries, 1>(layout, values, weights, corrections, seen, d, acc);
  }
}

// Calls the function with a number of queries that the compiler knows.
template <KvType kType, int kQueries = kMaxWidth>
RUNNEL_INLINE void score_tile(int num_queries, const KvLayout& layout, const KvTile& keys, const float* query,
                              float* scores) {
  if (num_queries == kQueries) return score_tile<kType, kQueries>(layout, keys, query, scores);
  if constexpr (kQueries > 1) score_tile<kType, kQueries - 1>(num_queries, layout, keys, query, scores);
}
template <KvType kType, int kQueries = kMaxWidth>
RUNNEL_INLINE void add_tile(int num_queries, const KvLayout& layout, const KvTile& values,
                            const float* weights, const float* corrections, SeenPositions seen, float* acc) {
  if (num_queries == kQueries)
    return add_tile<kType, kQueries>(layout, values, weights, corrections, seen, acc);
  if constexpr (kQueries > 1)
    add_tile<kType, kQueries - 1>(num_queries, layout, values, weights, corrections, seen, acc);
}

static constexpr uint32_t kPositionVectors = kTilePositions / kWideLanes;

// The sum of 32 weights, as a tree of halves.
RUNNEL_INLINE float sum_of_tile(const Wide (&weights)[kPositionVectors]) {
#if RUNNEL_LANES == 16
  const Wide sum = weights[0] + weights[1];
  return sum_lanes(low_half(sum) + high_half(sum));
#elif RUNNEL_LANES == 4
  const Wide low = (weights[0] + weights[4]) + (weights[2] + weights[6]);
  const Wide high = (weights[1] + weights[5]) + (weights[3] + weights[7]);
  return sum_lanes(low + high);
#else
  return sum_lanes((weights[0] + weights[2]) + (weights[1] + weights[3]));
#endif
}

RUNNEL_INLINE WideInt are_seen(SeenPositions seen, uint32_t vector) {
  const WideInt position = kLaneNumbers + static_cast<int32_t>(vector * kWideLanes);
  return (position >= static_cast<int32_t>(seen.begin)) & (position < static_cast<int32_t>(seen.end));
}

// Turns the scores of one query into weights, and updates its maximum and its sum of weights with the tile.
template <bool kIsWhole>
RUNNEL_INLINE void weigh(uint32_t query, float scale, AttendState& state) {
  const SeenPositions seen = state.seen[query];
  float* weights = state.weights[query];
  Wide scores[kPositionVectors];
  Wide largest = broadcast_wide(state.max[query]);
#pragma GCC unroll 8
  for (uint32_t v = 0; v < kPositionVectors; ++v) {
    scores[v] = load_wide(weights + v * kWideLanes) * broadcast_wide(scale);
    if (!kIsWhole) scores[v] = are_seen(seen, v) ? scores[v] : broadcast_wide(-__builtin_inff());
    largest = scores[v] > largest ? scores[v] : largest;
  }
  // In most tiles the maximum does not change, and exp(0) is 1.
  state.correction[query] = 1.0f;
  if (any_greater(largest, broadcast_wide(state.max[query]))) {
    float new_max = state.max[query];
    for (uint32_t lane = 0; lane < kWideLanes; ++lane)
      new_max = largest[lane] > new_max ? largest[lane] : new_max;
    state.correction[query] = exp(broadcast(state.max[query] - new_max))[0];
    state.max[query] = new_max;
  }
#pragma GCC unroll 8
  for (uint32_t v = 0; v < kPositionVectors; ++v) {
    scores[v] = exp(scores[v] - broadcast_wide(state.max[query]));
    // exp clamps minus infinity and gives more than 0, so the weights of positions that are not seen are set
    // to 0.
    if (!kIsWhole) scores[v] = are_seen(seen, v) ? scores[v] : Wide{};
    store_wide(weights + v * kWideLanes, scores[v]);
  }
  state.sum[query] = __builtin_fmaf(state.sum[query], state.correction[query], sum_of_tile(scores));
}

// Caps the scores of one query, after they are scaled.
RUNNEL_APART void cap_scores(uint32_t query, Scoring scoring, AttendState& state) {
  for (uint32_t i = 0; i < kTilePositions; i += kWideLanes) {
    float* scores = state.weights[query] + i;
    store_wide(scores, soft_capped(load_wide(scores) * broadcast_wide(scoring.scale), scoring.softcap));
  }
}

RUNNEL_APART void weigh_all(QueryRange range, Scoring scoring, AttendState& state) {
  float scale = scoring.scale;
  if (scoring.softcap != 0.0f) {
    for (uint32_t i = range.first; i < range.end; ++i) cap_scores(i, scoring, state);
    scale = 1.0f;  // they are scaled
  }
  for (uint32_t i = range.first; i < range.end; ++i) {
    const bool is_whole = state.seen[i].end - state.seen[i].begin == kTilePositions;
    is_whole ? weigh<true>(i, scale, state) : weigh<false>(i, scale, state);
  }
}

// Adds the values of the positions that each query sees. The positions that all queries see are added for all
// at once, those before and after for each query alone. Positions that are not seen are not read: zero times
// their value may be no number.
template <KvType kType>
RUNNEL_INLINE void add_seen_values(const KvLayout& layout, const KvTile& values, QueryRange range,
                                   AttendState& state) {
  // Later queries see later positions: see kernels.h.
  const SeenPositions common = {state.seen[range.end - 1].begin, state.seen[range.first].end};
  const auto add_alone = [&](uint32_t i, SeenPositions seen) {
    if (seen.begin >= seen.end) return;
    add_tile<kType, 1>(layout, values, state.weights[i], &state.correction[i], seen, state.acc[i]);
    state.correction[i] = 1.0f;
  };
  if (common.begin >= common.end) {
    for (uint32_t i = range.first; i < range.end; ++i) add_alone(i, state.seen[i]);
    return;
  }
  for (uint32_t i = range.first; i < range.end; ++i) add_alone(i, {state.seen[i].begin, common.begin});
  add_tile<kType>(static_cast<int>(range.end - range.first), layout, values, state.weights[range.first],
                  &state.correction[range.first], common, state.acc[range.first]);
  for (uint32_t i = range.first; i < range.end; ++i) {
    state.correction[i] = 1.0f;
    add_alone(i, {common.end, state.seen[i].end});
  }
}

// Computes the tile for the queries in range, each of which sees one of its positions.
template <KvType kType>
RUNNEL_INLINE void attend_tile(const KvLayout& layout, const KvTile& keys, const KvTile& values,
                               QueryRange range, Scoring scoring, AttendState& state) {
  const uint32_t num_queries = range.end - range.first;
  const uint32_t num_passes = (num_queries + kMaxWidth - 1) / kMaxWidth;
  const auto pass = [&](uint32_t index) {
    return QueryRange{range.first + num_queries * index / num_passes,
                      range.first + num_queries * (index + 1) / num_passes};
  };
  for (uint32_t index = 0; index < num_passes; ++index) {
    const auto [first, end] = pass(index);
    score_tile<kType>(static_cast<int>(end - first), layout, keys, state.query[first], state.weights[first]);
  }
  weigh_all(range, scoring, state);
  for (uint32_t index = 0; index < num_passes; ++index)
    add_seen_values<kType>(layout, values, pass(index), state);
}

}  // namespace runnel::RUNNEL_KERNELS
