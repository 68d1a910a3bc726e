// Attention of rows of a prompt. A block takes consecutive rows of a sequence: up to 32 queries that share a
// KV head. It stages 32 keys and then their values in shared memory, as floats, and uses them for all of its
// queries. Each query adds up what it would add up alone, in the same order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/device_kv-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {

inline constexpr uint32_t kTileThreads = 64;

template <KvType kType, uint32_t kDim>
struct TileAttention {
  static constexpr uint32_t kWarps = kTileThreads / kWarpSize;
  static constexpr uint32_t kWarpQueries = kTileQueries / kWarps;

  // For scores, a lane takes 4 queries and 4 positions: those with these numbers, and every 4th or 8th from
  // them on.
  static constexpr uint32_t kScoreQueries = 4;
  static constexpr uint32_t kScorePositions = 4;
  static constexpr uint32_t kPositionLanes = kTilePositions / kScorePositions;
  __device__ static uint32_t first_query() { return lane() % 2 + lane() / 16 * 2; }
  __device__ static uint32_t first_position() { return lane() / 2 % kPositionLanes; }
  // For values, a lane takes 8 queries and, of every 64 columns, 4.
  static constexpr uint32_t kValueQueries = 8;
  static constexpr uint32_t kColumnLanes = 16;
  static constexpr uint32_t kColumns = kDim / kColumnLanes;

  struct Memory {
    // float4: (4 columns, query) and (4 columns, position); for values (position, column).
    Shared<float, kDim * kTileQueries> queries;
    Shared<float, kDim * kTilePositions> staged;
    // The other arrays have parts for each warp, with its queries in the order of slot_of().
    Shared<float, kTileQueries * kTilePositions> weights;  // (warp, position, slot)
    Shared<float, kTileQueries> corrections;
    Shared<float, kTileQueries> split_factors;
    Shared<float, kTileQueries> maxima;  // of the splits that are joined
    Shared<float, kTileQueries> sums;
    Shared<uint32_t, kTileQueries> positions;  // of the query's row
    // The cap of scores and its factor. In registers they would be alive all the time, and values would
    // spill.
    Shared<float, 2> cap;
  };
  // The four queries of a lane's scores are neighbours.
  __device__ static uint32_t slot_of(uint32_t query) {
    return query % kScoreQueries * kScoreQueries + query / kScoreQueries;
  }
  __device__ static uint32_t query_of(uint32_t slot) { return slot_of(slot); }

  // The queries of a lane: the largest score of the split so far, and the sum of the weights.
  struct Split {
    float max[kScoreQueries];
    float sum[kScoreQueries];
  };
  using Sums = float[kValueQueries][kColumns];

  const AttendInputs& in;
  const AttendTile tile;
  const uint32_t kv_head;
  const uint32_t queries_per_kv;
  const ReadyRows& out;
  Memory& memory;

  __device__ uint32_t num_queries() const { return tile.num_rows * queries_per_kv; }
  // A query that is missing is a copy of the last one.
  __device__ uint32_t row_of(uint32_t query) const {
    return std::min(query, num_queries() - 1) / queries_per_kv;
  }
  __device__ uint32_t head_of(uint32_t query) const {
    return kv_head * queries_per_kv + std::min(query, num_queries() - 1) % queries_per_kv;
  }
  // Of all rows together.
  __device__ Positions seen() const {
    return {seen_from(tile.first_position, in.shape.window).begin, tile.first_position + tile.num_rows};
  }
  __device__ bool all_see(uint32_t first) const {
    const uint32_t last_row = tile.first_position + tile.num_rows - 1;
    return first >= seen_from(last_row, in.shape.window).begin &&
           first + kTilePositions <= tile.first_position + 1;
  }

  __device__ void load_queries() {
    constexpr uint32_t kTogether = 8;  // queries that neighbouring lanes take, for the banks of shared memory
    for (uint32_t i = threadIdx.x; i < kTileQueries * kDim / 4; i += kTileThreads) {
      const uint32_t query = i % kTogether + i / (kTogether * kDim / 4) * kTogether;
      const uint32_t column = i / kTogether % (kDim / 4) * 4;
      const size_t from = static_cast<size_t>(tile.first_row + row_of(query)) * in.qkv.stride +
                          head_of(query) * in.shape.head_dim + column;
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
      const SplitJoin join = before_splits(in, head_of(query));
      memory.positions[threadIdx.x] = tile.first_position + row_of(query);
      memory.maxima[threadIdx.x] = join.max;
      memory.sums[threadIdx.x] = join.sum;
    }
    if (threadIdx.x == 0) {
      memory.cap[0] = in.shape.softcap;
      memory.cap[1] = in.cap_factor;
    }
  }

  // The offset of the keys of the block of position first + lane(), or of the nearest that is seen.
  __device__ size_t keys_at(uint32_t position) const {
    const size_t table = static_cast<size_t>(tile.sequence) * in.rows.table_stride;
    const uint32_t block = in.rows.block_tables[table + (position >> in.kv.block_shift)];
    return in.kv.keys_of(in.layer, block, kv_head);
  }
  __device__ void stage_keys(uint32_t first) {
    const uint32_t position = seen().nearest(first + lane());
    const size_t keys = keys_at(position);
#pragma unroll 4
    for (uint32_t octet = warp(); octet < kDim / kOctet; octet += kWarps) {
      float key[kOctet];
      // Columns beyond the head have queries of 0, but a key of theirs might be NaN.
      load_key<kType>(in.kv, keys, std::min(octet, in.kv.num_octets() - 1), in.kv.position_in_block(position),
                      key);
      for (uint32_t half = 0; half < 2; ++half) {
        const float4 values{key[4 * half], key[4 * half + 1], key[4 * half + 2], key[4 * half + 3]};
        memory.staged.template store<float4>(((2 * octet + half) * kTilePositions + lane()) * 4, values);
      }
    }
  }
  __device__ void stage_values(uint32_t first) {
    const Positions all = seen();
#pragma unroll 4
    for (uint32_t i = warp(); i < kTileOctets * kDim / kWarpSize; i += kWarps) {
      const uint32_t octet_first = first + i % kTileOctets * kOctet;
      const uint32_t column = i / kTileOctets * kWarpSize + lane();
      const size_t values = keys_at(all.nearest(octet_first)) + in.kv.run_bytes();
      float value[kOctet];
      load_value<kType>(in.kv, values, in.kv.position_in_block(octet_first) / kOctet,
                        std::min(column, in.kv.head_dim - 1), value);
      for (uint32_t j = 0; j < kOctet; ++j)
        memory.staged[(octet_first - first + j) * kDim + column] = value[j];
    }
  }

  __device__ void score(float (&scores)[kScoreQueries][kScorePositions]) {
    float sums[kScoreQueries][kScorePositions][4] = {};
    const uint32_t query = warp() * kWarpQueries + first_query();
#pragma unroll 1
    for (uint32_t group = 0; group < kDim / 4; ++group) {
      float4 queries[kScoreQueries];
      float4 keys[kScorePositions];
      for (uint32_t r = 0; r < kScoreQueries; ++r)
        queries[r] = memory.queries.template load<float4>((group * kTileQueries + query + 4 * r) * 4);
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
    const float factor = memory.cap[1];
    for (auto& of_query : scores) {
      for (float& score : of_query) score = soft_capped(score, cap, factor);
    }
  }

  // Turns the scores of a tile of positions into weights and corrections.
  __device__ void weigh(uint32_t first, const float (&scores)[kScoreQueries][kScorePositions], Split& split) {
    const uint32_t slot = warp() * kWarpQueries + first_query() * kScoreQueries;
    float weights[kScorePositions][kScoreQueries];
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
      const float new_max = std::fmax(split.max[r], max);
      // A row that sees no position of the tile keeps its sums.
      const float correction = has_tile ? exp_f32(split.max[r] - new_max) : 1.0f;
      float p[kScorePositions];
      for (uint32_t i = 0; i < kScorePositions; ++i) {
        p[i] = is_seen[i] ? exp_f32(scores[r][i] - new_max) : 0.0f;
        weights[i][r] = p[i];
      }
      float sum = (p[0] + p[2]) + (p[1] + p[3]);
      for (uint32_t mask = kPositionLanes; mask >= 2; mask /= 2) sum = sum + shuffle_xor(sum, mask);
      split.sum[r] = std::fma(split.sum[r], correction, sum);
      split.max[r] = new_max;
      if (first_position() == 0) memory.corrections[slot + r] = correction;
    }
    for (uint32_t i = 0; i < kScorePositions; ++i) {
      const uint32_t position = first_position() + kPositionLanes * i;
      memory.weights.template store<float4>(
          weights_at(position) + first_query() * kScoreQueries,
          float4{weights[i][0], weights[i][1], weights[i][2], weights[i][3]});
    }
  }
  __device__ static uint32_t weights_at(uint32_t position) {
    return (warp() * kTilePositions + position) * kWarpQueries;
  }

  // The first of the slots whose sums of values this lane has, and the first of its columns.
  __device__ static uint32_t value_slot() {
    return lane() / kColumnLanes * kValueQueries;
  }
  __device__ static uint32_t value_column(uint32_t i) {
    return i / 4 * 64 + lane() % kColumnLanes * 4 + i % 4;
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
      const auto low = memory.weights.template load<float4>(weights_at(position) + slot);
      const auto high = memory.weights.template load<float4>(weights_at(position) + slot + 4);
      const float weights[kValueQueries] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      float values[kColumns];
      for (uint32_t i = 0; i < kColumns; i += 4) {
        const auto four = memory.staged.template load<float4>(position * kDim + value_column(i));
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
  __device__ void join(uint32_t first, Split& split, Sums& sums) {
    const uint32_t own = warp() * kWarpQueries;
    const uint32_t slot = own + first_query() * kScoreQueries;
    for (uint32_t r = 0; r < kScoreQueries; ++r) {
      const float max = memory.maxima[slot + r];
      const float sum = memory.sums[slot + r];
      SplitJoin joined_splits{max, sum};
      const SplitJoin::Factors factors = joined_splits.add(split.max[r], split.sum[r]);
      const Positions row = seen_from(memory.positions[slot + r], in.shape.window);
      sync_warp();  // all lanes have read them
      if (first_position() == 0 && sees(row, first)) {
        memory.maxima[slot + r] = joined_splits.max;
        memory.sums[slot + r] = joined_splits.sum;
        memory.corrections[slot + r] = factors.so_far;
        memory.split_factors[slot + r] = factors.split;
      }
      split.max[r] = -INFINITY;
      split.sum[r] = 0.0f;
    }
    sync_warp();
    for (uint32_t q = 0; q < kValueQueries; ++q) {
      const uint32_t query = own + query_of(value_slot() + q);
      const Positions row = seen_from(memory.positions[own + value_slot() + q], in.shape.window);
      if (query < num_queries() && sees(row, first)) {
        const SplitJoin::Factors factors{memory.corrections[own + value_slot() + q],
                                         memory.split_factors[own + value_slot() + q]};
        for (uint32_t i = 0; i < kColumns; ++i) {
          if (value_column(i) >= in.shape.head_dim) continue;
          const size_t index = value_at(query) + value_column(i);
          const float so_far = row.begin >= first ? 0.0f : out.values[index];
          out.values[index] = joined(so_far, sums[q][i], factors);
        }
      }
      for (float& sum : sums[q]) sum = 0.0f;
    }
  }
  // Whether the row sees a position of the split.
  __device__ static bool sees(const Positions& row, uint32_t first) {
    return row.begin < first + kAttendSplit && row.end > first;
  }
  __device__ size_t value_at(uint32_t query) const {
    return static_cast<size_t>(tile.first_row + row_of(query)) * out.stride +
           head_of(query) * in.shape.head_dim;
  }

  __device__ void finish() {
    sync_warp();
#pragma unroll 1
    for (uint32_t slot = 0; slot < kWarpQueries; ++slot) {
      const uint32_t query = warp() * kWarpQueries + query_of(slot);
      if (query >= num_queries()) continue;
      const float sum = memory.sums[warp() * kWarpQueries + slot];
#pragma unroll 1
      for (uint32_t first = 0; first < in.shape.head_dim; first += kWarpSize) {
        const size_t index = value_at(query) + first + lane();
        const bool is_there = first + lane() < in.shape.head_dim;
        const float y = is_there ? out.values[index] / sum : 0.0f;
        if (makes_ready(in.shape)) {
          store_ready_block(out, tile.first_row + row_of(query), head_of(query) * in.shape.head_dim + first,
                            y);
        } else if (is_there) {
          out.values[index] = y;
        }
      }
    }
  }

  __device__ void compute() {
    load_queries();
    Split split;
    for (float& max : split.max) max = -INFINITY;
    for (float& sum : split.sum) sum = 0.0f;
    Sums sums = {};
    const Positions all = seen();
#pragma unroll 1
    for (uint32_t first = all.begin / kTilePositions * kTilePositions; first < all.end;
         first += kTilePositions) {
      sync_block();  // the queries are written, and the values before have been read
      stage_keys(first);
      sync_block();
      float scores[kScoreQueries][kScorePositions];
      score(scores);
      sync_block();
      stage_values(first);
      weigh(first, scores, split);
      sync_block();
      all_see(first) ? add_values<true>(first, sums) : add_values<false>(first, sums);
      const uint32_t next = first + kTilePositions;
      if (next % kAttendSplit == 0 || next >= all.end) join(first / kAttendSplit * kAttendSplit, split, sums);
    }
    finish();
  }
};

// Grid x: the tiles of the list, each with every KV head.
template <KvType kType, uint32_t kDim>
__global__ void __launch_bounds__(kTileThreads, 6) attend_tiles_kernel(AttendInputs in, ReadyRows out) {
  __shared__ typename TileAttention<kType, kDim>::Memory memory;
  let_next_begin();
  wait_for_previous();
  const AttendTile tile = in.work.tile(in.work.counts(), blockIdx.x / in.shape.num_kv_heads);
  if (tile.first_row >= in.num_rows) return;
  TileAttention<kType, kDim>{
      in, tile, blockIdx.x % in.shape.num_kv_heads, in.shape.num_heads / in.shape.num_kv_heads, out, memory}
      .compute();
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
