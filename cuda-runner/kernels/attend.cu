#include <algorithm>

#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/attend_rows-inl.h"
#include "cuda-runner/kernels/attend_splits-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = kSplitPositions;
constexpr uint32_t kRowThreads = kAttendRows * kWarpSize;
// Enough blocks for every multiprocessor to have several; a row with more splits than its share of them takes
// them in turns.
constexpr uint32_t kEnoughBlocks = 2048;

// x: groups of queries; y: groups of rows.
template <typename Attention>
__global__ void __launch_bounds__(kRowThreads, 1) attend_rows_kernel(AttendInputs in, FloatRows out) {
  __shared__ typename Attention::Queries queries;
  __shared__ typename Attention::Weights weights;
  // Later rows see more positions: they go first, so that the blocks end together.
  const uint32_t row = (gridDim.y - 1 - blockIdx.y) * kAttendRows + warp();
  if (row < in.num_rows) Attention::compute(in, row, blockIdx.x, queries, weights, out);
}

// x: splits, in turns; y: groups of queries; z: rows.
template <typename Attention, uint32_t kQueries>
__global__ void __launch_bounds__(kThreads, 2) attend_splits_kernel(AttendInputs in, SplitResults results) {
  __shared__ typename Attention::Memory memory;
  const uint32_t row = blockIdx.z;
  const Positions seen = seen_from(in.rows.positions[row], in.shape.window);
  const uint32_t first_split = seen.begin / kSplitPositions + blockIdx.x;
  if (first_split * kSplitPositions >= seen.end) return;

  const QueryGroup group = query_group<kQueries>(in.shape, blockIdx.y);
  load_queries<kQueries, Attention::kDim>(in, row, group, threadIdx.x, kThreads, memory.queries, 0);
  for (uint32_t split = first_split; split * kSplitPositions < seen.end; split += gridDim.x) {
    sync_block();  // queries are there, and the split before is done with
    Attention::compute(in, row, group, split, seen, memory, results);
  }
}

// x: 256 columns; y: rows.
__global__ void __launch_bounds__(kThreads)
    join_splits_kernel(Global<const uint32_t> positions, uint32_t window, SplitResults results,
                       ReadyRows out) {
  const uint32_t row = blockIdx.y;
  const uint32_t column = blockIdx.x * kThreads + threadIdx.x;
  if (column >= out.stride) return;  // whole warps
  float y = 0.0f;
  if (column < out.width) {
    const Positions seen = seen_from(positions[row], window);
    SplitJoin join;
    float sum = 0.0f;
    for (uint32_t split = seen.begin / kSplitPositions; split * kSplitPositions < seen.end; ++split) {
      const size_t first = results.first(row, column / results.head_dim, split);
      const SplitJoin::Factors factors = join.add(results.values[first], results.values[first + 1]);
      sum = joined(sum, results.values[first + 2 + column % results.head_dim], factors);
    }
    y = sum / join.sum;
  }
  store_ready_block(out, row, column - lane(), y);
}

// Makes rows ready whose values are there: a block of 32 columns may have those of two heads. x: rows;
// y: 256 columns.
__global__ void __launch_bounds__(kThreads) make_ready_kernel(ReadyRows out) {
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= out.stride) return;  // whole warps
  const size_t index = static_cast<size_t>(blockIdx.x) * out.stride + column;
  store_ready_block(out, blockIdx.x, column - lane(), column < out.width ? out.values[index] : 0.0f);
}

template <KvType kTypeOf, uint32_t kChunksOf, uint32_t kQueriesOf>
struct Variant {
  static constexpr KvType kType = kTypeOf;
  static constexpr uint32_t kChunks = kChunksOf;
  static constexpr uint32_t kQueries = kQueriesOf;
};

// Calls launch with the variant for the shape: how the cache is stored, how many chunks of 32 columns a head
// has, and how many queries go together.
template <KvType kType, uint32_t kChunks, typename Launch>
cudaError_t with_queries(const AttentionShape& shape, const Launch& launch) {
  if (shape.num_heads == shape.num_kv_heads) return launch(Variant<kType, kChunks, 1>());
  return launch(Variant<kType, kChunks, 4>());
}
template <KvType kType, typename Launch>
cudaError_t with_chunks(const AttentionShape& shape, const Launch& launch) {
  if (shape.head_dim <= 64) return with_queries<kType, 2>(shape, launch);
  if (shape.head_dim <= 128) return with_queries<kType, 4>(shape, launch);
  return with_queries<kType, 8>(shape, launch);
}
template <typename Launch>
cudaError_t with_variant(KvType type, const AttentionShape& shape, const Launch& launch) {
  switch (type) {
    case KvType::kF16:
      return with_chunks<KvType::kF16>(shape, launch);
    case KvType::kF32:
      return with_chunks<KvType::kF32>(shape, launch);
    case KvType::kQ8_0:
      return with_chunks<KvType::kQ8_0>(shape, launch);
  }
  return cudaErrorInvalidValue;
}

uint64_t floats_a_row(const AttentionShape& shape, uint32_t max_positions) {
  const uint64_t num_splits = divide_up(max_positions, kSplitPositions);
  return num_splits * shape.num_heads * (2 + shape.head_dim);
}

// Up to how many rows splits are computed side by side.
uint32_t max_split_rows(const AttentionShape& shape, uint32_t max_positions) {
  const uint64_t fitting = kMaxAttendWorkspaceBytes / (sizeof(float) * floats_a_row(shape, max_positions));
  return static_cast<uint32_t>(std::min<uint64_t>(kMaxSplitRows, fitting));
}

cudaError_t attend_rows(const AttendInputs& in, const ReadyRows& out, cudaStream_t stream) {
  const cudaError_t status = with_variant(in.kv.type, in.shape, [&]<typename V>(V) {
    const uint32_t num_groups = in.shape.num_kv_heads * groups_per_kv_head(in.shape, V::kQueries);
    const cudaLaunchConfig_t config =
        config_of(dim3(num_groups, divide_up(in.num_rows, kAttendRows)), kRowThreads, stream);
    return cudaLaunchKernelEx(&config, attend_rows_kernel<RowAttention<V::kType, V::kQueries, V::kChunks>>,
                              in, FloatRows{out.values, out.stride});
  });
  if (status != cudaSuccess) return status;
  const cudaLaunchConfig_t config =
      config_of(dim3(in.num_rows, divide_up(out.stride, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, make_ready_kernel, out);
}

cudaError_t attend_splits(const AttendInputs& in, uint32_t max_positions, Global<float> workspace,
                          const ReadyRows& out, cudaStream_t stream) {
  const uint32_t num_splits = divide_up(max_positions, kSplitPositions);
  const SplitResults results{workspace, in.shape.num_heads, num_splits, in.shape.head_dim};
  const cudaError_t status = with_variant(in.kv.type, in.shape, [&]<typename V>(V) {
    const uint32_t num_groups = in.shape.num_kv_heads * groups_per_kv_head(in.shape, V::kQueries);
    const uint32_t at_once = std::clamp(kEnoughBlocks / (num_groups * in.num_rows), 1u, num_splits);
    const cudaLaunchConfig_t config = config_of(dim3(at_once, num_groups, in.num_rows), kThreads, stream);
    return cudaLaunchKernelEx(
        &config, attend_splits_kernel<SplitAttention<V::kType, V::kQueries, V::kChunks>, V::kQueries>, in,
        results);
  });
  if (status != cudaSuccess) return status;
  const cudaLaunchConfig_t config =
      config_of(dim3(divide_up(out.stride, kThreads), in.num_rows), kThreads, stream);
  return cudaLaunchKernelEx(&config, join_splits_kernel, in.rows.positions, in.shape.window, results, out);
}

}  // namespace

uint64_t attend_workspace_floats(const AttentionShape& shape, uint32_t max_rows, uint32_t max_positions) {
  return std::min(max_rows, max_split_rows(shape, max_positions)) * floats_a_row(shape, max_positions);
}

cudaError_t attend(const AttendInputs& in, uint32_t max_positions, Global<float> workspace,
                   const ReadyRows& out, cudaStream_t stream) {
  if (in.num_rows > max_split_rows(in.shape, max_positions)) return attend_rows(in, out, stream);
  return attend_splits(in, max_positions, workspace, out, stream);
}

}  // namespace runnel
