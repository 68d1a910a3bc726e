// Attention of rows of a prompt. A block takes consecutive rows of a sequence: up to 32 queries that share a
// KV head. It stages 32 keys and then their values in shared memory, as floats, and uses them for all of its
// queries. Each query adds up what it would add up alone, in the same order.
// It loads values to registers before it computes with the keys, and the next keys before it computes with
// the values, so that it does not wait for device memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/device_kv-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/resident_blocks.h"
#include "cuda-runner/kernels/tile_queries-inl.h"

namespace runnel {

inline constexpr uint32_t kTileThreads = 128;

template <KvType kType, uint32_t kDim>
struct TileAttention {
  static constexpr uint32_t kWarps = kTileThreads / kWarpSize;
  static constexpr uint32_t kWarpQueries = kTileQueries / kWarps;
  // Blocks of a multiprocessor, few enough that no register spills. Octets of F32 take twice those of F16.
  static constexpr uint32_t kMostBlocks = kType == KvType::kF32 ? 3 : 4;

  // For scores, a lane takes 2 queries and 4 positions: those with these numbers, and every 4th or 8th from
  // them on.
  static constexpr uint32_t kScoreQueries = 2;
  static constexpr uint32_t kScorePositions = 4;
  static constexpr uint32_t kQueryLanes = kWarpQueries / kScoreQueries;
  static constexpr uint32_t kPositionLanes = kTilePositions / kScorePositions;
  __device__ static uint32_t first_query() { return lane() % 2 + lane() / 16 * 2; }
  __device__ static uint32_t first_position() { return lane() / 2 % kPositionLanes; }
  // For values, a lane takes 4 queries and, of every 64 columns, 4.
  static constexpr uint32_t kValueQueries = 4;
  static constexpr uint32_t kColumnLanes = 16;
  static constexpr uint32_t kColumns = kDim / kColumnLanes;
  // Its first slot and its first column, and the distance of its column i from that.
  __device__ static uint32_t value_slot() { return lane() / kColumnLanes * kValueQueries; }
  __device__ static uint32_t value_column() { return lane() % kColumnLanes * 4; }
  static constexpr uint32_t column_offset(uint32_t i) { return i / 4 * 64 + i % 4; }

  struct Memory {
    // float4: (4 columns, query) and (4 columns, position); for values (position, column).
    Shared<float, kDim * kTileQueries> queries;
    Shared<float, kDim * kTilePositions> staged;
    // The other arrays have parts for each warp, with its queries in the order of query_of().
    Shared<float, kTileQueries * kTilePositions> weights;  // (warp, position, slot)
    Shared<float, kTileQueries> corrections;
    Shared<float, kTileQueries> split_factors;
    // The largest score and the sum of the weights: of the split so far, and of the splits that are joined.
    Shared<float, kTileQueries> split_maxima;
    Shared<float, kTileQueries> split_sums;
    Shared<float, kTileQueries> maxima;
    Shared<float, kTileQueries> sums;
    Shared<uint32_t, kTileQueries> positions;  // of the query's row
    Shared<uint32_t, kTileQueries> rows;       // kMissing if there is no such query
    Shared<uint32_t, kTileQueries> columns;    // the first of the query's head
    // What would be alive all the time in registers, so that others would spill: the cap of scores and its
    // factor, and the number of the sequence.
    Shared<float, 2> cap;
    Shared<uint32_t, 1> sequence;
  };
  static constexpr uint32_t kMissing = 0xffffffff;
  // The queries of a lane's scores are neighbours.
  __device__ static uint32_t query_of(uint32_t slot) {
    return slot % kScoreQueries * kQueryLanes + slot / kScoreQueries;
  }

  using Sums = float[kValueQueries][kColumns];
  // What a thread loads of the keys or of the values of a tile of positions.
  static constexpr uint32_t kThreadOctets = kDim / kOctet / kWarps;
  using Octets = StoredOctet<kType>[kThreadOctets];
  static_assert(kWarps == kTileOctets);

  const AttendInputs& in;
  const TileQueries tile;
  const ReadyRows& out;
  Memory& memory;

  __device__ void load_queries() {
    constexpr uint32_t kTogether = 8;  // queries that neighbouring lanes take, for the banks of shared memory
#pragma unroll 4
    for (uint32_t k = 0; k < kTileQueries * kDim / 4 / kTileThreads; ++k) {
      const uint32_t i = k * kTileThreads + threadIdx.x;
      const uint32_t query = i % kTogether + i / (kTogether * kDim / 4) * kTogether;
      const uint32_t column = i / kTogether % (kDim / 4) * 4;
      const size_t from = static_cast<size_t>(tile.row_of(query)) * in.qkv.stride +
                          tile.head_of(query) * in.shape.head_dim + column;
      float4 values{};
      if (column < in.shape.head_dim) values.x = in.qkv.values[from];
      if (column + 1 < in.shape.head_dim) values.y = in.qkv.values[from + 1];
      if (column + 2 < in.shape.head_dim) values.z = in.qkv.values[from + 2];
      if (column + 3 < in.shape.head_dim) values.w = in.qkv.values[from + 3];
      memory.queries.template store<float4>(column * kTileQueries + query * 4, values);
    }
    if (threadIdx.x < kTileQueries) {
      const uint32_t slot = threadIdx.x % kWarpQueries;
      const uint32_t query = threadIdx.x - slot + query_of(slot);
      const SplitJoin join = before_splits(in, tile.head_of(query));
      memory.positions[threadIdx.x] = tile.position_of(query);
      memory.rows[threadIdx.x] = query < tile.count() ? tile.row_of(query) : kMissing;
      memory.columns[threadIdx.x] = tile.head_of(query) * in.shape.head_dim;
      memory.split_maxima[threadIdx.x] = -INFINITY;
      memory.split_sums[threadIdx.x] = 0.0f;
      memory.maxima[threadIdx.x] = join.max;
      memory.sums[threadIdx.x] = join.sum;
    }
    if (threadIdx.x == 0) {
      memory.cap[0] = in.shape.softcap;
      memory.cap[1] = in.cap_factor;
      memory.sequence[0] = tile.rows.sequence;
    }
  }

  // The block of position first + lane(), or of the nearest that is seen.
  __device__ uint32_t block_of(uint32_t first, uint32_t sequence) const {
    const size_t table = static_cast<size_t>(sequence) * in.rows.table_stride;
    return in.rows.block_tables[table + (tile.seen().nearest(first + lane()) >> in.kv.block_shift)];
  }
  // A thread takes a position's keys, and every 4th octet of columns. block: of block_of().
  __device__ void load_keys(uint32_t first, uint32_t block, Octets& octets) const {
    const size_t keys = in.kv.keys_of(in.layer, block, tile.kv_head);
    const uint32_t position = in.kv.position_in_block(tile.seen().nearest(first + lane()));
    for (uint32_t k = 0; k < kThreadOctets; ++k) {
      // Columns beyond the head have queries of 0, but a key of theirs might be NaN.
      const uint32_t octet = std::min(warp() + k * kWarps, in.kv.num_octets() - 1);
      octets[k] = load_key<kType>(in.kv, keys, octet, position);
    }
  }
  __device__ void store_keys(const Octets& octets) {
    for (uint32_t k = 0; k < kThreadOctets; ++k) {
      float key[kOctet];
      octets[k].widen(key);
      const uint32_t group = 2 * (warp() + k * kWarps);
      memory.staged.template store<float4>((group * kTilePositions + lane()) * 4,
                                           float4{key[0], key[1], key[2], key[3]});
      memory.staged.template store<float4>(((group + 1) * kTilePositions + lane()) * 4,
                                           float4{key[4], key[5], key[6], key[7]});
    }
  }
  // A warp takes an octet of positions, and a thread every 32nd column.
  __device__ void load_values(uint32_t first, uint32_t block, Octets& octets) const {
    const uint32_t octet = warp() * kOctet;
    const size_t values = in.kv.keys_of(in.layer, shuffle(block, octet), tile.kv_head) + in.kv.run_bytes();
    for (uint32_t k = 0; k < kThreadOctets; ++k) {
      const uint32_t column = std::min(k * kWarpSize + lane(), in.kv.head_dim - 1);
      octets[k] = load_value<kType>(in.kv, values, in.kv.position_in_block(first + octet) / kOctet, column);
    }
  }
  __device__ void store_values(const Octets& octets) {
    for (uint32_t k = 0; k < kThreadOctets; ++k) {
      float value[kOctet];
      octets[k].widen(value);
      for (uint32_t j = 0; j < kOctet; ++j)
        memory.staged[(warp() * kOctet + j) * kDim + k * kWarpSize + lane()] = value[j];
    }
  }

  __device__ void score(float (&scores)[kScoreQueries][kScorePositions]) {
    float sums[kScoreQueries][kScorePositions][4] = {};
    const uint32_t query = warp() * kWarpQueries + first_query();
    // The scales of Q8_0 leave fewer registers for the loads of groups to come.
    [[maybe_unused]] constexpr uint32_t kAtOnce = kType == KvType::kQ8_0 ? 2 : 4;
#pragma unroll kAtOnce
    for (uint32_t group = 0; group < kDim / 4; ++group) {
      float4 queries[kScoreQueries];
      float4 keys[kScorePositions];
      for (uint32_t r = 0; r < kScoreQueries; ++r)
        queries[r] =
            memory.queries.template load<float4>((group * kTileQueries + query + kQueryLanes * r) * 4);
      for (uint32_t i = 0; i < kScorePositions; ++i)
        keys[i] = memory.staged.template load<float4>(
            (group * kTilePositions + first_position() + kPositionLanes * i) * 4);
      for (uint32_t r = 0; r < kScoreQueries; ++r) {
        for (uint32_t i = 0; i < kScorePositions; ++i) {
          float(&s)[4] = sums[r][i];
          s[0] = std::fma(queries[r].x, keys[i].x, s[0]);
          s[1] = std::fma(queries[r].y, keys[i].y, s[1]);
          s[2] = std::fma(queries[r].z, keys[i].z, s[2]);
          s[3] = std::fma(queries[r].w, keys[i].w, s[3]);
        }
      }
    }
    for (uint32_t r = 0; r < kScoreQueries; ++r) {
      for (uint32_t i = 0; i < kScorePositions; ++i) {
        const float(&s)[4] = sums[r][i];
        scores[r][i] = ((s[0] + s[1]) + (s[2] + s[3])) * in.shape.scale;
      }
    }
    const float cap = memory.cap[0];
    if (cap == 0.0f) return;
    for (auto& of_query : scores) {
      for (float& score : of_query) score = soft_capped(score, cap, memory.cap[1]);
    }
  }

  // Turns the scores of a tile of positions into weights and corrections.
  __device__ void weigh(uint32_t first, const float (&scores)[kScoreQueries][kScorePositions]) {
    const uint32_t slot = warp() * kWarpQueries + first_query() * kScoreQueries;
    float weights[kScoreQueries][kScorePositions];
    for (uint32_t r = 0; r < kScoreQueries; ++r) {
      const Positions row = seen_from(memory.positions[slot + r], in.shape.window);
      bool is_seen[kScorePositions];
      float max = -INFINITY;
      for (uint32_t i = 0; i < kScorePositions; ++i) {
        is_seen[i] = row.has(first + first_position() + kPositionLanes * i);
        max = std::fmax(max, is_seen[i] ? scores[r][i] : -INFINITY);
      }
      for (uint32_t mask = 2; mask <= kPositionLanes; mask *= 2) max = std::fmax(max, shuffle_xor(max, mask));
      const bool has_tile = row.begin < first + kTilePositions && row.end > first;
      const float max_before = memory.split_maxima[slot + r];
      const float new_max = std::fmax(max_before, max);
      // A row that sees no position of the tile keeps its sums.
      const float correction = has_tile ? exp_f32(max_before - new_max) : 1.0f;
      float(&p)[kScorePositions] = weights[r];
      for (uint32_t i = 0; i < kScorePositions; ++i)
        p[i] = is_seen[i] ? exp_f32(scores[r][i] - new_max) : 0.0f;
      float sum = (p[0] + p[2]) + (p[1] + p[3]);
      for (uint32_t mask = kPositionLanes; mask >= 2; mask /= 2) sum = sum + shuffle_xor(sum, mask);
      sync_warp();  // all lanes have read the maximum
      if (first_position() == 0) {
        memory.split_sums[slot + r] = std::fma(memory.split_sums[slot + r], correction, sum);
        memory.split_maxima[slot + r] = new_max;
        memory.corrections[slot + r] = correction;
      }
    }
    for (uint32_t i = 0; i < kScorePositions; ++i) {
      const uint32_t position = first_position() + kPositionLanes * i;
      memory.weights.template store<float2>(weights_at(position) + first_query() * kScoreQueries,
                                            float2{weights[0][i], weights[1][i]});
    }
  }
  __device__ static uint32_t weights_at(uint32_t position) {
    return (warp() * kTilePositions + position) * kWarpQueries;
  }

  // kIsWhole: each row sees all positions of the tile.
  template <bool kIsWhole>
  __device__ void add_values(uint32_t first, Sums& sums) {
    const uint32_t slot = value_slot();
    for (uint32_t q = 0; q < kValueQueries; ++q) {
      const float correction = memory.corrections[warp() * kWarpQueries + slot + q];
      for (float& sum : sums[q]) sum = sum * correction;
    }
#pragma unroll 2
    for (uint32_t position = 0; position < kTilePositions; ++position) {
      const auto weights_of = memory.weights.template load<float4>(weights_at(position) + slot);
      const float weights[kValueQueries] = {weights_of.x, weights_of.y, weights_of.z, weights_of.w};
      float values[kColumns];
      for (uint32_t i = 0; i < kColumns; i += 4) {
        const auto four =
            memory.staged.template load<float4>(position * kDim + value_column() + column_offset(i));
        values[i] = four.x;
        values[i + 1] = four.y;
        values[i + 2] = four.z;
        values[i + 3] = four.w;
      }
      for (uint32_t q = 0; q < kValueQueries; ++q) {
        // A value that is not seen may be NaN or infinite, so it is not even multiplied by 0.
        if constexpr (!kIsWhole) {
          const uint32_t row = memory.positions[warp() * kWarpQueries + slot + q];
          if (!seen_from(row, in.shape.window).has(first + position)) continue;
        }
        for (uint32_t i = 0; i < kColumns; ++i) sums[q][i] = std::fma(weights[q], values[i], sums[q][i]);
      }
    }
  }

  // Joins a split to those before it, whose sums of columns are in out.values.
  __device__ void join(uint32_t first, Sums& sums) {
    const uint32_t own = warp() * kWarpQueries;
    sync_warp();  // all lanes have read the corrections
    if (lane() < kWarpQueries) {
      const uint32_t at = own + lane();
      SplitJoin so_far{memory.maxima[at], memory.sums[at]};
      const SplitJoin::Factors factors = so_far.add(memory.split_maxima[at], memory.split_sums[at]);
      if (sees(seen_from(memory.positions[at], in.shape.window), first)) {
        memory.maxima[at] = so_far.max;
        memory.sums[at] = so_far.sum;
        memory.corrections[at] = factors.so_far;
        memory.split_factors[at] = factors.split;
      }
      memory.split_maxima[at] = -INFINITY;
      memory.split_sums[at] = 0.0f;
    }
    sync_warp();
    // In registers they would be alive all the time, with what is computed from them.
    const uint32_t first_slot = recomputed(value_slot());
    const uint32_t column = recomputed(value_column());
    const bool has_ready = tile.rows.first_position < first + kAttendSplit && makes_ready(in.shape);
#pragma unroll
    for (uint32_t q = 0; q < kValueQueries; ++q) {
      const uint32_t at = own + first_slot + q;
      const uint32_t row = memory.rows[at];
      const uint32_t first_column = memory.columns[at];
      const size_t index = static_cast<size_t>(row) * out.stride + first_column + column;
      const Positions seen = seen_from(memory.positions[at], in.shape.window);
      const bool is_there = row != kMissing && sees(seen, first);
      const bool is_complete = seen.end <= first + kAttendSplit;
      if (is_there) {
        const SplitJoin::Factors factors{memory.corrections[at], memory.split_factors[at]};
        const float divisor = is_complete ? float{memory.sums[at]} : 1.0f;
        float so_far[kColumns] = {};  // loaded together, so that the loads do not wait for one another
        for (uint32_t i = 0; i < kColumns; ++i) {
          if (seen.begin < first && column + column_offset(i) < in.shape.head_dim)
            so_far[i] = out.values[index + column_offset(i)];
        }
        for (uint32_t i = 0; i < kColumns; ++i) {
          const float y = joined(so_far[i], sums[q][i], factors) / divisor;
          if (!(is_complete && has_ready) && column + column_offset(i) < in.shape.head_dim)
            out.values[index + column_offset(i)] = y;
          sums[q][i] = y;
        }
      }
      // 8 neighbouring lanes have 32 columns.
      for (uint32_t i = 0; has_ready && i < kColumns; i += kQuarterColumns) {
        const uint32_t block = (column + column_offset(i)) / kBlockColumns * kBlockColumns;
        store_ready_quarters(out, is_there && is_complete && block < in.shape.head_dim, row,
                             first_column + block,
                             {sums[q][i], sums[q][i + 1], sums[q][i + 2], sums[q][i + 3]});
      }
      for (float& sum : sums[q]) sum = 0.0f;
    }
  }
  // Whether the row sees a position of the split.
  __device__ static bool sees(const Positions& row, uint32_t first) {
    return row.begin < first + kAttendSplit && row.end > first;
  }

  __device__ void compute() {
    const Positions all = tile.seen();
    uint32_t first = all.begin / kTilePositions * kTilePositions;
    uint32_t block = block_of(first, tile.rows.sequence);
    Octets keys;
    load_keys(first, block, keys);
    load_queries();
    Sums sums = {};
#pragma unroll 1
    for (; first < all.end; first += kTilePositions) {
      const uint32_t next = first + kTilePositions;
      sync_block();  // the queries are written, and the values before have been read
      store_keys(keys);
      Octets values;
      load_values(first, block, values);
      sync_block();
      float scores[kScoreQueries][kScorePositions];
      score(scores);
      sync_block();
      store_values(values);
      block = block_of(next, memory.sequence[0]);
      weigh(first, scores);
      load_keys(next, block, keys);  // after the last tile, those of the last position
      sync_block();
      tile.all_see(first) ? add_values<true>(first, sums) : add_values<false>(first, sums);
      if (next % kAttendSplit == 0 || next >= all.end) join(first / kAttendSplit * kAttendSplit, sums);
    }
  }
};

// Grid x: the tiles of the list, each with every KV head.
template <KvType kType, uint32_t kDim>
__global__ void __launch_bounds__(kTileThreads,
                                  resident_blocks(TileAttention<kType, kDim>::kMostBlocks,
                                                  sizeof(typename TileAttention<kType, kDim>::Memory)))
    attend_tiles_kernel(AttendInputs in, ReadyRows out) {
  __shared__ typename TileAttention<kType, kDim>::Memory memory;
  let_next_begin();
  wait_for_previous();
  const AttendTile tile = in.work.tile(in.work.counts(), blockIdx.x / in.shape.num_kv_heads);
  if (tile.first_row >= in.num_rows) return;
  const TileQueries queries{tile, in.shape.window, blockIdx.x % in.shape.num_kv_heads,
                            in.shape.num_heads / in.shape.num_kv_heads};
  TileAttention<kType, kDim>{in, queries, out, memory}.compute();
}

template <KvType kType>
cudaError_t attend_tiles(const AttendInputs& in, const ReadyRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config =
      config_of(dim3(in.work.num_tiles * in.shape.num_kv_heads), kTileThreads, stream);
  if (in.shape.head_dim <= 64) return cudaLaunchKernelEx(&config, attend_tiles_kernel<kType, 64>, in, out);
  return cudaLaunchKernelEx(&config, attend_tiles_kernel<kType, 128>, in, out);
}

template <KvType kType>
cudaError_t load_attend_tiles(const AttentionShape& shape) {
  return shape.head_dim <= 64 ? load(attend_tiles_kernel<kType, 64>) : load(attend_tiles_kernel<kType, 128>);
}

}  // namespace runnel
