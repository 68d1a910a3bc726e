// Attention of rows that share their keys and values with no other row of the step. A block takes pieces of
// the list in turn, each for one group of queries, or for one query in a step with few pieces. In a split,
// each warp first computes the weights of some of the tiles and then the sums of one chunk of 32 columns over
// all tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/join_splits-inl.h"
#include "cuda-runner/kernels/kv_stream-inl.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/row_heads-inl.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {

template <KvType kType, uint32_t kQueries, uint32_t kWarps>
struct RowMemory {
  typename KvStream<kType, kWarps>::Memory stream;
  RowHeadsMemory<kQueries, kWarps * kWarpSize> heads;
  Shared<float, kQueries * kAttendSplit> weights;  // at first the scores
  Shared<uint32_t, 1> index;  // as compute() is given it, which would take a register of the whole loop
  // (query, tile): the tile's largest score; exp(maximum of the tiles before it - maximum with it); the sum
  // of its weights.
  Shared<float, kQueries * kSplitTiles> maxima;
  Shared<float, kQueries * kSplitTiles> corrections;
  Shared<float, kQueries * kSplitTiles> sums;
};

// Memory: a RowMemory of at least kQueries.
template <KvType kType, uint32_t kQueries, uint32_t kWarps, typename Memory>
struct RowAttention {
  using Stream = KvStream<kType, kWarps>;
  using Heads = RowHeads<kType, kQueries, kWarps, decltype(Memory::heads)>;
  static constexpr uint32_t kDim = kWarps * kWarpSize;  // columns of a head, rounded up

  // A piece, for one group of queries.
  struct Place {
    uint32_t number;  // of the piece
    uint32_t group;
    bool is_there;
    bool is_cut;
    AttendPiece piece;
  };

  // Computes the scores of the warp's tiles, and the largest score of each of them.
  __device__ static void score(const AttendInputs& in, const RowSplit& split, Stream& stream,
                               Memory& memory) {
    for (uint32_t round = 0; round < Stream::kRounds; ++round) {
      float sums[Stream::kTogether][kQueries][4] = {};
      if (Stream::has_round(split, round)) score_round(in.kv, split, round, stream, memory, sums);
      for (uint32_t i = 0; i < Stream::kTogether; ++i) {
        const uint32_t tile = Stream::tile_of(round, i);
        if (!split.has_tile(tile)) {
          if (lane() < kQueries) memory.maxima[lane() * kSplitTiles + tile] = -INFINITY;
          continue;
        }
        const uint32_t position = tile * kTilePositions + lane();
        const bool is_seen = split.seen.has(split.first_position + position);
        for (uint32_t q = 0; q < kQueries; ++q) {
          const float(&s)[4] = sums[i][q];
          const float score = ((s[0] + s[1]) + (s[2] + s[3])) * in.shape.scale;
          memory.weights[q * kAttendSplit + position] = score;
          const float max = largest(is_seen ? score : -INFINITY);
          if (lane() == 0) memory.maxima[q * kSplitTiles + tile] = max;
        }
      }
    }
  }

  // Caps the scores of the warp's tiles. Apart from score(), which has no registers left.
  __device__ static void cap(const AttendInputs& in, const RowSplit& split, Memory& memory) {
#pragma unroll 1
    for (uint32_t tile = recomputed(warp()); tile < kSplitTiles; tile += kWarps) {
      if (!split.has_tile(tile)) continue;
      const uint32_t position = tile * kTilePositions + recomputed(lane());
      const bool is_seen = split.seen.has(split.first_position + position);
#pragma unroll 1
      for (uint32_t q = 0; q < kQueries; ++q) {
        const float score =
            soft_capped(memory.weights[q * kAttendSplit + position], in.shape.softcap, in.cap_factor);
        memory.weights[q * kAttendSplit + position] = score;
        const float max = largest(is_seen ? score : -INFINITY);
        if (lane() == 0) memory.maxima[q * kSplitTiles + tile] = max;
      }
    }
  }

  __device__ static void score_round(const DeviceKv& kv, const RowSplit& split, uint32_t round,
                                     Stream& stream, Memory& memory,
                                     float (&sums)[Stream::kTogether][kQueries][4]) {
    float scales[2][kOctet] = {};
    const uint32_t num_steps = Stream::key_steps(kv);
#pragma unroll 1
    for (uint32_t step = 0; step < num_steps; ++step) {
      stream.next_keys();
      float key[2][kOctet];
      for (uint32_t member = 0; member < 2; ++member) {
        if constexpr (Stream::kHasScales) {
          const uint32_t column = octet_of(step, member) * kOctet;
          if (column % kKvScaleColumns < kOctet * 2) {
            const float scale = stream.key_scale(round, member, column / kKvScaleColumns);
            for (float& each : scales[member]) each = scale;
          }
        }
        stream.load_octet(member, scales[member], key[member]);
        const uint32_t newest = split.newest_in(Stream::tile_of(round, member % Stream::kTogether));
        if (newest < kTilePositions) {
          const uint32_t first = octet_of(step, member) * kOctet;
          const auto low = memory.heads.newest.template load<float4>(first);
          const auto high = memory.heads.newest.template load<float4>(first + 4);
          const float values[kOctet] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
          for (uint32_t i = 0; i < kOctet; ++i)
            key[member][i] = lane() == newest ? values[i] : key[member][i];
        }
      }
      for (uint32_t q = 0; q < kQueries; ++q) {
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t member = i / 2;
          const uint32_t half = i % 2;
          const auto query = memory.heads.queries.template load<float4>(
              q * kDim + octet_of(step, member) * kOctet + 4 * half);
          float(&s)[4] = sums[member % Stream::kTogether][q];
          s[0] = std::fma(query.x, key[member][4 * half], s[0]);
          s[1] = std::fma(query.y, key[member][4 * half + 1], s[1]);
          s[2] = std::fma(query.z, key[member][4 * half + 2], s[2]);
          s[3] = std::fma(query.w, key[member][4 * half + 3], s[3]);
        }
      }
    }
  }
  __device__ static uint32_t octet_of(uint32_t step, uint32_t member) {
    return Stream::kTogether == 2 ? step : 2 * step + member;
  }

  // Turns the scores of the warp's tiles into weights. The maxima of all tiles must be there.
  __device__ static void weigh(const RowSplit& split, Memory& memory) {
    // Each lane has a tile of a query, or one of each half of the queries: the maximum with it.
    constexpr uint32_t kTilesOfAll = kQueries * kSplitTiles;
    constexpr uint32_t kOfLane = (kTilesOfAll + kWarpSize - 1) / kWarpSize;
    const uint32_t tile_of_lane = lane() % kSplitTiles;
    float max_with[kOfLane];
    for (uint32_t k = 0; k < kOfLane; ++k) {
      const uint32_t index = k * kWarpSize + lane();
      float& max = max_with[k];
      max = index < kTilesOfAll ? float{memory.maxima[index]} : -INFINITY;
      for (uint32_t distance = 1; distance < kSplitTiles; distance *= 2)
        max = std::fmax(max, shuffle(max, tile_of_lane < distance ? lane() : lane() - distance));
      const float neighbour = shuffle(max, tile_of_lane == 0 ? lane() : lane() - 1);
      const float max_before = tile_of_lane == 0 ? -INFINITY : neighbour;
      if (warp() > 0 || index >= kTilesOfAll) continue;
      // A tile without a seen position leaves the sums as they are.
      const bool has_tile = split.has_tile(tile_of_lane);
      memory.corrections[index] = has_tile ? exp_f32(max_before - max) : 1.0f;
      if (!has_tile) memory.sums[index] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t tile = warp(); tile < kSplitTiles; tile += kWarps) {
      if (!split.has_tile(tile)) continue;
      const uint32_t position = tile * kTilePositions + lane();
      const bool is_seen = split.seen.has(split.first_position + position);
      float weights[kQueries];
      for (uint32_t q = 0; q < kQueries; ++q) {
        const uint32_t index = q * kSplitTiles + tile;
        const float max = shuffle(max_with[q * kSplitTiles / kWarpSize], index % kWarpSize);
        const float score = memory.weights[q * kAttendSplit + position];
        weights[q] = is_seen ? exp_f32(score - max) : 0.0f;
        memory.weights[q * kAttendSplit + position] = weights[q];
      }
      for (uint32_t q = 0; q < kQueries; ++q) {
        const float sum = tree_sum(weights[q]);
        if (lane() == 0) memory.sums[q * kSplitTiles + tile] = sum;
      }
    }
  }

  // acc: the sums of column warp() * 32 + lane().
  __device__ static void sum_values(const RowSplit& split, Stream& stream, Memory& memory,
                                    float (&acc)[kQueries]) {
#pragma unroll 1
    for (uint32_t tile = split.tile_begin(); tile < split.tile_end(); ++tile) {
      for (uint32_t q = 0; q < kQueries; ++q) acc[q] = acc[q] * memory.corrections[q * kSplitTiles + tile];
      if (split.is_whole(tile)) {
        add_tile<true>(split, tile, stream, memory, acc);
      } else {
        add_tile<false>(split, tile, stream, memory, acc);
      }
    }
  }

  // kIsWhole: all positions of the tile are seen, and in the cache.
  template <bool kIsWhole>
  __device__ static void add_tile(const RowSplit& split, uint32_t tile, Stream& stream, Memory& memory,
                                  float (&acc)[kQueries]) {
    float newest = 0.0f;
    if (!kIsWhole && split.has_newest) newest = memory.heads.newest[kDim + warp() * kWarpSize + lane()];
#pragma unroll 1
    for (uint32_t step = 0; step < Stream::kTileSteps; ++step) {
      stream.next_values();
      for (uint32_t member = 0; member < 2; ++member) {
        const uint32_t octet = tile * kTileOctets + step * 2 + member;
        float scales[kOctet];
        if constexpr (Stream::kHasScales) stream.load_value_scales(octet, scales);
        float value[kOctet];
        stream.load_octet(member, scales, value);
        if constexpr (!kIsWhole) {
          // A value that is not seen may be NaN or infinite. It is replaced, since 0 times it would be NaN.
          for (uint32_t i = 0; i < kOctet; ++i) {
            const uint32_t position = split.first_position + octet * kOctet + i;
            const bool is_newest = split.has_newest && position == split.seen.end - 1;
            value[i] = is_newest ? newest : split.seen.has(position) ? value[i] : 0.0f;
          }
        }
        for (uint32_t q = 0; q < kQueries; ++q) {
          const uint32_t first = q * kAttendSplit + octet * kOctet;
          const auto low = memory.weights.template load<float4>(first);
          const auto high = memory.weights.template load<float4>(first + 4);
          const float weight[kOctet] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
          for (uint32_t i = 0; i < kOctet; ++i) acc[q] = std::fma(weight[i], value[i], acc[q]);
        }
      }
    }
  }

  // The largest score of a split and the sum of its weights, in lane q for query q.
  struct Summary {
    float max = -INFINITY;
    float sum = 0.0f;
  };
  __device__ static Summary summary_of(Memory& memory) {
    const uint32_t q = std::min(lane(), kQueries - 1);
    Summary split;
    for (uint32_t i = q * kSplitTiles; i < (q + 1) * kSplitTiles; ++i) {
      const float tile_max = memory.maxima[i];
      const float correction = memory.corrections[i];
      const float sum = memory.sums[i];
      split.max = std::fmax(split.max, tile_max);
      split.sum = std::fma(split.sum, correction, sum);
    }
    return split;
  }

  __device__ static void store_split(const SplitResults& results, uint32_t place, const QueryGroup& group,
                                     const Summary& summary, const float (&acc)[kQueries]) {
    const uint32_t column = recomputed(threadIdx.x);
    for (uint32_t q = 0; q < kQueries; ++q) {
      if (q >= group.num_heads || column >= results.head_dim) break;
      results.values[results.first(place, group.first_head + q) + 2 + column] = acc[q];
    }
    if (column < group.num_heads) {
      const size_t first = results.first(place, group.first_head + column);
      results.values[first] = summary.max;
      results.values[first + 1] = summary.sum;
    }
  }

  // y: of column threadIdx.x. The queries have been used: their memory takes y, so that the warps share the
  // blocks of 32 columns of all queries.
  __device__ static void store_row(const AttentionShape& shape, const ReadyRows& out, uint32_t row,
                                   const QueryGroup& group, const float (&y)[kQueries], Memory& memory) {
    const uint32_t column = recomputed(threadIdx.x);
    const uint32_t first_column = group.first_head * shape.head_dim;
    if (!makes_ready(shape)) {
      for (uint32_t q = 0; q < kQueries; ++q) {
        if (q >= group.num_heads || column >= shape.head_dim) break;
        out.values[static_cast<size_t>(row) * out.stride + first_column + q * shape.head_dim + column] = y[q];
      }
      return;
    }
    for (uint32_t q = 0; q < kQueries; ++q) memory.heads.queries[q * kDim + column] = y[q];
    sync_block();
    const uint32_t num_chunks = shape.head_dim / kBlockColumns;
#pragma unroll 1
    for (uint32_t i = column / kWarpSize; i < group.num_heads * num_chunks; i += kWarps) {
      const uint32_t first = i % num_chunks * kBlockColumns;
      store_ready_block(out, row, first_column + i / num_chunks * shape.head_dim + first,
                        memory.heads.queries[i / num_chunks * kDim + first + lane()]);
    }
  }

  // Number `index` of all groups of all pieces. It reads only what no kernel writes, so it may be called
  // before the launch before is complete.
  __device__ static Place place_of(const AttendInputs& in, const QueryGroups& groups, uint32_t index) {
    const uint32_t number = index / groups.num_groups;
    const AttendCounts counts = in.work.counts();
    return {number, index % groups.num_groups, number < counts.num_pieces, number < counts.num_cut,
            in.work.piece(number)};
  }
  // As in RowSplit. It may be called as early.
  __device__ static uint32_t block_of(const AttendInputs& in, const AttendPiece& piece, uint32_t split) {
    const uint32_t first = split * kAttendSplit;
    const Positions seen = seen_from(piece.position, in.shape.window).within(first, kAttendSplit);
    const uint32_t position = seen.nearest(first + lane() * kOctet);
    return in.rows.block_tables.template load_read_only<uint32_t>(
        size_t{piece.sequence} * in.rows.table_stride + (position >> in.kv.block_shift));
  }
  // Stores the key and the value of the row's own position, if the piece has it, when nobody reads the cache
  // there any more: neither another thread of the block nor another block with queries of the KV head.
  __device__ static void store_newest(const AttendInputs& in, const QueryGroups& groups,
                                      const SplitResults& results, Memory& memory) {
    const Place place = place_of(in, groups, memory.index[0]);
    const AttendPiece& piece = place.piece;
    if (place.is_cut && piece.split != piece.position / kAttendSplit) return;
    const uint32_t kv_head = query_group<kQueries>(groups, place.group).kv_head;
    wait_copies<0>();  // also those of which nothing is used
    if (groups.per_kv_head == 1) {
      sync_block();
    } else if (!arrives_last(results.arrivals, results.newest_counter(in, piece.row, kv_head),
                             groups.per_kv_head)) {
      return;
    }
    Heads::store_newest(in, piece, kv_head, memory.heads);
  }

  // Computes number `index` of all groups of queries of all pieces. Returns the block's next number, or
  // kNothing if there are fewer.
  static constexpr uint32_t kNothing = 0xffffffff;
  __device__ static uint32_t compute(const AttendInputs& in, const QueryGroups& groups, uint32_t index,
                                     const SplitResults& results, const ReadyRows& out, Memory& memory) {
    const Place place = place_of(in, groups, index);
    const AttendPiece& piece = place.piece;
    uint32_t next_block = place.is_there ? block_of(in, piece, piece.split) : 0;
    wait_for_previous();
    if (!place.is_there) return kNothing;
    if (piece.row >= in.num_rows) return index + gridDim.x;
    if (threadIdx.x == 0) memory.index[0] = index;
    const Positions seen = seen_from(piece.position, in.shape.window);
    const uint32_t split_end = place.is_cut ? piece.split + 1 : (seen.end - 1) / kAttendSplit + 1;
    SplitJoin join;  // in lane q for query q
    float sums[kQueries] = {};
    Summary summary;
    float acc[kQueries];
#pragma unroll 1
    for (uint32_t number = piece.split; number < split_end; ++number) {
      const uint32_t first_position = number * kAttendSplit;
      // There are no registers to keep it in.
      const uint32_t kv_head = query_group<kQueries>(groups, recomputed(place.group)).kv_head;
      const RowSplit split{first_position, seen.within(first_position, kAttendSplit), kv_head, next_block,
                           in.rotates && seen.end <= first_position + kAttendSplit};
      if (number + 1 < split_end) next_block = block_of(in, piece, number + 1);
      Stream stream(in.kv, in.layer, split, memory.stream);
      if (number == piece.split)
        Heads::load(in, piece.row, query_group<kQueries>(groups, place.group),
                    seen.end <= split_end * kAttendSplit,
                    memory.heads);  // while the copies are under way
      sync_block();  // the queries are written, and the weights of the split before have been read
      score(in, split, stream, memory);
      if (in.shape.softcap != 0.0f) cap(in, split, memory);
      sync_block();
      weigh(split, memory);
      sync_block();
      for (float& each : acc) each = 0.0f;
      if (warp() * kWarpSize < in.shape.head_dim) sum_values(split, stream, memory, acc);
      summary = summary_of(memory);
      if (in.has_sinks && number == piece.split) {
        const QueryGroup group = query_group<kQueries>(groups, place.group);
        join = before_splits(in, group.first_head + std::min(lane(), group.num_heads - 1));
      }
      const SplitJoin::Factors factors = join.add(summary.max, summary.sum);
      for (uint32_t q = 0; q < kQueries; ++q)
        sums[q] = joined(sums[q], acc[q], {shuffle(factors.so_far, q), shuffle(factors.split, q)});
    }
    // Read and computed again, since there are no registers to keep it in.
    const Place again = place_of(in, groups, memory.index[0]);
    const QueryGroup group = query_group<kQueries>(groups, again.group);
    bool is_complete = true;
    if (again.is_cut) {  // one split
      store_split(results, again.number, group, summary, acc);
      const Positions row_seen = seen_from(again.piece.position, in.shape.window);
      const uint32_t first_split = row_seen.begin / kAttendSplit;
      const uint32_t num_splits = (row_seen.end - 1) / kAttendSplit - first_split + 1;
      const uint32_t first_place = again.number - (again.piece.split - first_split);
      is_complete = arrives_last(results.arrivals,
                                 results.splits_counter(in, groups, first_place, again.group), num_splits);
      if (is_complete)
        SplitsJoin<kQueries, kWarps, decltype(memory.weights)>{in,          results,    group,
                                                               first_place, num_splits, memory.weights}
            .join(sums);
    } else {
      for (uint32_t q = 0; q < kQueries; ++q) sums[q] = sums[q] / shuffle(join.sum, q);
    }
    if (is_complete) store_row(in.shape, out, again.piece.row, group, sums, memory);
    if (in.rotates) store_newest(in, groups, results, memory);
    const uint32_t next_index = memory.index[0] + gridDim.x;
    sync_block();  // the memory is free
    return next_index;
  }
};

}  // namespace runnel
