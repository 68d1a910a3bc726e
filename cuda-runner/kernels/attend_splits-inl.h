// Attention for few rows. A block takes one split for a group of a row's queries. First each warp computes
// the weights of one tile; then each warp sums up one chunk of 32 columns of some of the queries over all
// tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/attend_variants-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {

inline constexpr uint32_t kSplitThreads = kSplitPositions;
// With this many blocks every multiprocessor has several. If there are more splits, a block takes several of
// them in turn.
inline constexpr uint32_t kEnoughBlocks = 2048;

template <KvType kType, uint32_t kQueries, uint32_t kChunks>
struct SplitAttention {
  static constexpr uint32_t kDim = kChunks * kWarpSize;
  // The number of queries whose chunk a warp sums up. Chunks times groups of this many queries are at most
  // the kSplitTiles warps of a block.
  static constexpr uint32_t kWarpQueries = (kQueries * kChunks + kSplitTiles - 1) / kSplitTiles;

  struct Memory {
    Shared<float, kQueries * kDim> queries;
    Shared<float, kQueries * kSplitPositions> weights;
    // (query, tile): the tile's largest score; exp(maximum of the tiles before it - maximum with it); the sum
    // of its weights.
    Shared<float, kQueries * kSplitTiles> maxima;
    Shared<float, kQueries * kSplitTiles> corrections;
    Shared<float, kQueries * kSplitTiles> sums;
  };

  __device__ static uint32_t block_of(const AttendInputs& in, uint32_t row, uint32_t position,
                                      const Positions& seen) {
    // For a position that is not seen: the block of the nearest one that is. This is the right block if a
    // position of the same octet is seen.
    return in.rows.block_of(row, std::clamp(position, seen.begin, seen.end - 1), in.kv.block_shift);
  }

  // Computes the weights, maxima, corrections and sums in memory. seen: the seen positions of this split,
  // which lie in the tiles tile_begin to tile_end - 1.
  __device__ static void weigh(const AttendInputs& in, uint32_t row, const QueryGroup& group,
                               uint32_t first_position, const Positions& seen, uint32_t tile_begin,
                               uint32_t tile_end, Memory& memory) {
    const bool has_tile = warp() >= tile_begin && warp() < tile_end;
    const uint32_t own_position = first_position + threadIdx.x;
    const bool is_seen = seen.has(own_position);
    float scores[kQueries];
    if (has_tile) {
      const uint32_t position = std::clamp(own_position, seen.begin, seen.end - 1);
      const size_t keys = in.kv.keys_of(in.layer, block_of(in, row, position, seen), group.kv_head);
      score<kType, kQueries, kDim>(in.kv, keys, in.kv.position_in_block(position), in.shape.scale,
                                   memory.queries, 0, scores);
      for (uint32_t q = 0; q < kQueries; ++q) {
        const float max = largest(is_seen ? scores[q] : -INFINITY);
        if (lane() == 0) memory.maxima[q * kSplitTiles + warp()] = max;
      }
    }
    sync_block();
    if (!has_tile) return;
    for (uint32_t q = 0; q < kQueries; ++q) {
      float max_before = -INFINITY;
      float max = -INFINITY;
      for (uint32_t tile = tile_begin; tile <= warp(); ++tile) {
        const float tile_max = memory.maxima[q * kSplitTiles + tile];
        max_before = max;
        max = std::fmax(max_before, tile_max);
      }
      const float weight = is_seen ? exp_f32(scores[q] - max) : 0.0f;
      memory.weights[q * kSplitPositions + threadIdx.x] = weight;
      const float sum = tree_sum(weight);
      if (lane() == 0) {
        memory.corrections[q * kSplitTiles + warp()] = exp_f32(max_before - max);
        memory.sums[q * kSplitTiles + warp()] = sum;
      }
    }
  }

  // acc: the sums of column first_column + lane() for kWarpQueries queries, from first_query on.
  __device__ static void sum_values(const AttendInputs& in, uint32_t row, const QueryGroup& group,
                                    uint32_t first_position, const Positions& seen, uint32_t tile_begin,
                                    uint32_t tile_end, uint32_t first_query, uint32_t first_column,
                                    Memory& memory, float (&acc)[kWarpQueries][1]) {
    const uint32_t block = block_of(in, row, first_position + lane() * kOctet, seen);  // of octet lane()
    for (uint32_t tile = tile_begin; tile < tile_end; ++tile) {
      for (uint32_t q = 0; q < kWarpQueries; ++q)
        acc[q][0] = acc[q][0] * memory.corrections[(first_query + q) * kSplitTiles + tile];
      const ValueTile values{group.kv_head,
                             first_position + tile * kTilePositions,
                             block,
                             tile * kTileOctets,
                             1,
                             first_query * kSplitPositions + tile * kTilePositions,
                             kSplitPositions};
      add_values<kType>(in, values, seen, first_column, memory.weights, acc);
    }
  }

  // Computes one split of one group of queries. All threads of the block must call it. memory.queries must be
  // written.
  __device__ static void compute(const AttendInputs& in, uint32_t row, const QueryGroup& group,
                                 uint32_t split, const Positions& row_seen, Memory& memory,
                                 const SplitResults& results) {
    const uint32_t first_position = split * kSplitPositions;
    const Positions seen = row_seen.within(first_position, kSplitPositions);
    const uint32_t tile_begin = (seen.begin - first_position) / kTilePositions;
    const uint32_t tile_end = (seen.end - first_position + kTilePositions - 1) / kTilePositions;
    weigh(in, row, group, first_position, seen, tile_begin, tile_end, memory);
    sync_block();

    const uint32_t first_query = warp() / kChunks * kWarpQueries;
    const uint32_t first_column = warp() % kChunks * kWarpSize;
    if (first_query < group.num_heads && first_column < in.shape.head_dim) {
      float acc[kWarpQueries][1] = {};
      sum_values(in, row, group, first_position, seen, tile_begin, tile_end, first_query, first_column,
                 memory, acc);
      for (uint32_t q = 0; q < kWarpQueries; ++q) {
        if (first_query + q >= group.num_heads || first_column + lane() >= in.shape.head_dim) break;
        const size_t first = results.first(row, group.first_head + first_query + q, split);
        results.values[first + 2 + first_column + lane()] = acc[q][0];
      }
    }
    const uint32_t q = threadIdx.x;
    if (q < group.num_heads) {
      float max = -INFINITY;
      float sum = 0.0f;
      for (uint32_t i = q * kSplitTiles + tile_begin; i < q * kSplitTiles + tile_end; ++i) {
        const float tile_max = memory.maxima[i];
        const float correction = memory.corrections[i];
        max = std::fmax(max, tile_max);
        sum = std::fma(sum, correction, memory.sums[i]);
      }
      const size_t first = results.first(row, group.first_head + q, split);
      results.values[first] = max;
      results.values[first + 1] = sum;
    }
  }
};

// Grid x: splits, which the blocks take in turn; y: groups of queries; z: rows.
template <typename Attention, uint32_t kQueries>
__global__ void __launch_bounds__(kSplitThreads, 2)
    attend_splits_kernel(AttendInputs in, SplitResults results) {
  let_next_begin();
  wait_for_previous();
  __shared__ typename Attention::Memory memory;
  const uint32_t row = blockIdx.z;
  const Positions seen = seen_from(in.rows.positions[row], in.shape.window);
  const uint32_t first_split = seen.begin / kSplitPositions + blockIdx.x;
  if (first_split * kSplitPositions >= seen.end) return;

  const QueryGroup group = query_group<kQueries>(in.shape, blockIdx.y);
  load_queries<kQueries, Attention::kDim>(in, row, group, threadIdx.x, kSplitThreads, memory.queries, 0);
  for (uint32_t split = first_split; split * kSplitPositions < seen.end; split += gridDim.x) {
    sync_block();  // the queries are written, and the memory of the last split has been read
    Attention::compute(in, row, group, split, seen, memory, results);
  }
}

template <KvType kType>
cudaError_t attend_splits(const AttendInputs& in, const SplitResults& results, cudaStream_t stream) {
  return with_variant(in.shape, [&]<typename V>(V) {
    const uint32_t num_groups = in.shape.num_kv_heads * groups_per_kv_head(in.shape, V::kQueries);
    const uint32_t at_once = std::clamp(kEnoughBlocks / (num_groups * in.num_rows), 1u, results.num_splits);
    const cudaLaunchConfig_t config =
        config_of(dim3(at_once, num_groups, in.num_rows), kSplitThreads, stream);
    return cudaLaunchKernelEx(
        &config, attend_splits_kernel<SplitAttention<kType, V::kQueries, V::kChunks>, V::kQueries>, in,
        results);
  });
}

template <KvType kType>
cudaError_t load_attend_splits() {
  return load_all(attend_splits_kernel<SplitAttention<kType, 1, 2>, 1>,
                  attend_splits_kernel<SplitAttention<kType, 1, 4>, 1>,
                  attend_splits_kernel<SplitAttention<kType, 1, 8>, 1>,
                  attend_splits_kernel<SplitAttention<kType, 4, 2>, 4>,
                  attend_splits_kernel<SplitAttention<kType, 4, 4>, 4>,
                  attend_splits_kernel<SplitAttention<kType, 4, 8>, 4>);
}

}  // namespace runnel
