// Attention for many rows. A warp takes a group of a row's queries and computes the splits one after the
// other.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/attend_variants-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {

// The warps of a block take neighbouring rows, so that they find each other's keys and values in the device's
// caches.
inline constexpr uint32_t kAttendRows = 4;
inline constexpr uint32_t kRowThreads = kAttendRows * kWarpSize;

template <KvType kType, uint32_t kQueries, uint32_t kChunks>
struct RowAttention {
  static constexpr uint32_t kDim = kChunks * kWarpSize;
  using Queries = Shared<float, kAttendRows * kQueries * kDim>;
  using Weights = Shared<float, kAttendRows * kQueries * kTilePositions>;

  // The state of a split, for each query: the largest score, the sum of weights, the sums of columns.
  struct Split {
    float max[kQueries];
    float sum[kQueries];
    float acc[kQueries][kChunks];
  };

  __device__ static void add_tile(const AttendInputs& in, uint32_t row, const QueryGroup& group,
                                  uint32_t first_position, const Positions& seen, Queries& queries,
                                  Weights& weights, Split& split) {
    constexpr uint32_t kWarpQueries = kQueries * kDim;
    const uint32_t first_weight = warp() * kQueries * kTilePositions;
    const bool is_seen = seen.has(first_position + lane());
    // A lane whose position is not seen takes the nearest one that is. If a position of its octet is seen,
    // that gives the octet's block, which add_values needs.
    const uint32_t position = std::clamp(first_position + lane(), seen.begin, seen.end - 1);
    const uint32_t block = in.rows.block_of(row, position, in.kv.block_shift);
    const size_t keys = in.kv.keys_of(in.layer, block, group.kv_head);
    float scores[kQueries];
    score<kType, kQueries, kDim>(in.kv, keys, in.kv.position_in_block(position), in.shape.scale, queries,
                                 warp() * kWarpQueries, scores);
    sync_warp();  // the weights of the last tile have been read
    for (uint32_t q = 0; q < kQueries; ++q) {
      const float new_max = std::fmax(split.max[q], largest(is_seen ? scores[q] : -INFINITY));
      const float correction = exp_f32(split.max[q] - new_max);
      const float weight = is_seen ? exp_f32(scores[q] - new_max) : 0.0f;
      weights[first_weight + q * kTilePositions + lane()] = weight;
      split.sum[q] = std::fma(split.sum[q], correction, tree_sum(weight));
      split.max[q] = new_max;
      for (float& acc : split.acc[q]) acc = acc * correction;
    }
    sync_warp();
    const ValueTile tile{group.kv_head, first_position, block, 0, kOctet, first_weight, kTilePositions};
    add_values<kType>(in, tile, seen, 0, weights, split.acc);
  }

  // Computes one group of queries of a row. Writes floats; they are not ready for a product.
  __device__ static void compute(const AttendInputs& in, uint32_t row, uint32_t group_index, Queries& queries,
                                 Weights& weights, const FloatRows& out) {
    const QueryGroup group = query_group<kQueries>(in.shape, group_index);
    const Positions seen = seen_from(in.rows.positions[row], in.shape.window);
    load_queries<kQueries, kDim>(in, row, group, lane(), kWarpSize, queries, warp() * kQueries * kDim);
    sync_warp();

    SplitJoin joins[kQueries];
    float sums[kQueries][kChunks] = {};
    for (uint32_t first = seen.begin / kSplitPositions * kSplitPositions; first < seen.end;
         first += kSplitPositions) {
      const Positions seen_here = seen.within(first, kSplitPositions);
      Split split{};
      for (float& max : split.max) max = -INFINITY;
      for (uint32_t tile = seen_here.begin / kTilePositions * kTilePositions; tile < seen_here.end;
           tile += kTilePositions)
        add_tile(in, row, group, tile, seen_here, queries, weights, split);
      for (uint32_t q = 0; q < kQueries; ++q) {
        const SplitJoin::Factors factors = joins[q].add(split.max[q], split.sum[q]);
        for (uint32_t c = 0; c < kChunks; ++c) sums[q][c] = joined(sums[q][c], split.acc[q][c], factors);
      }
    }
    for (uint32_t q = 0; q < kQueries; ++q) {
      if (q >= group.num_heads) break;
      for (uint32_t c = 0; c < kChunks; ++c) {
        const uint32_t column = c * kWarpSize + lane();
        if (column >= in.shape.head_dim) break;
        const size_t head = (group.first_head + q) * in.shape.head_dim;
        out.values[static_cast<size_t>(row) * out.stride + head + column] = sums[q][c] / joins[q].sum;
      }
    }
  }
};

// Grid x: groups of queries; y: groups of rows.
template <typename Attention>
__global__ void __launch_bounds__(kRowThreads, 1) attend_rows_kernel(AttendInputs in, FloatRows out) {
  let_next_begin();
  wait_for_previous();
  __shared__ typename Attention::Queries queries;
  __shared__ typename Attention::Weights weights;
  // Later rows see more positions. They are computed first, so that the last blocks are short and all end at
  // about the same time.
  const uint32_t row = (gridDim.y - 1 - blockIdx.y) * kAttendRows + warp();
  if (row < in.num_rows) Attention::compute(in, row, blockIdx.x, queries, weights, out);
}

template <KvType kType>
cudaError_t attend_rows(const AttendInputs& in, const FloatRows& out, cudaStream_t stream) {
  return with_variant(in.shape, [&]<typename V>(V) {
    const uint32_t num_groups = in.shape.num_kv_heads * groups_per_kv_head(in.shape, V::kQueries);
    const cudaLaunchConfig_t config =
        config_of(dim3(num_groups, divide_up(in.num_rows, kAttendRows)), kRowThreads, stream);
    return cudaLaunchKernelEx(&config, attend_rows_kernel<RowAttention<kType, V::kQueries, V::kChunks>>, in,
                              out);
  });
}

template <KvType kType>
cudaError_t load_attend_rows() {
  return load_all(
      attend_rows_kernel<RowAttention<kType, 1, 2>>, attend_rows_kernel<RowAttention<kType, 1, 4>>,
      attend_rows_kernel<RowAttention<kType, 1, 8>>, attend_rows_kernel<RowAttention<kType, 4, 2>>,
      attend_rows_kernel<RowAttention<kType, 4, 4>>, attend_rows_kernel<RowAttention<kType, 4, 8>>);
}

}  // namespace runnel
