#include <algorithm>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/attend_variants.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarpSize;
// Rows that are cut and joined side by side. Each block joins further rows in turn; if no row is cut, fewer
// blocks are done sooner.
constexpr uint32_t kJoinRows = 32;

// The factors of a split (SplitJoin::Factors), and the sum of its weights times its factor.
using SplitFactors = Shared<float4, kThreads>;

// Joins the splits of a column of a head, 32 splits at a time: each lane computes the factors of one of them.
// All lanes of a warp must call it, for one head.
__device__ inline float join_splits(const SplitResults& results, const AttendJoin& join, uint32_t head,
                                    uint32_t column, SplitFactors& shared) {
  float max = -INFINITY;
  float sum = 0.0f;
  float y = 0.0f;
  for (uint32_t begin = 0; begin < join.num_splits; begin += kWarpSize) {
    const uint32_t count = join.num_splits - begin < kWarpSize ? join.num_splits - begin : kWarpSize;
    const uint32_t place = join.first_place + begin;
    float columns[kWarpSize];
    for (uint32_t i = 0; i < kWarpSize; ++i)
      columns[i] = i < count ? results.values[results.first(place + i, head) + 2 + column] : 0.0f;
    const size_t own = results.first(place + std::min(lane(), count - 1), head);
    const float own_max = results.values[own];
    const float own_sum = results.values[own + 1];
    float max_with = std::fmax(max, own_max);  // of all splits up to this lane's
    for (uint32_t distance = 1; distance < kWarpSize; distance *= 2)
      max_with = std::fmax(max_with, shuffle(max_with, lane() < distance ? 0 : lane() - distance));
    const float neighbour = shuffle(max_with, lane() == 0 ? 0 : lane() - 1);
    const float max_before = lane() == 0 ? max : neighbour;
    const float factor = exp_f32(own_max - max_with);
    sync_warp();  // the factors of the splits before have been read
    shared[threadIdx.x] = float4{exp_f32(max_before - max_with), factor, own_sum * factor, 0.0f};
    sync_warp();
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      if (i >= count) break;
      const float4 factors = shared[warp() * kWarpSize + i];
      sum = std::fma(sum, factors.x, factors.z);
      y = joined(y, columns[i], {factors.x, factors.y});
    }
    max = shuffle(max_with, kWarpSize - 1);
  }
  return y / sum;
}

// Joins the rows that are cut, if heads are of whole blocks of columns. Grid x: groups of 8 blocks of 32
// columns, one for each warp; y: rows, which the blocks take in turn.
__global__ void __launch_bounds__(kThreads)
    join_splits_kernel(AttendInputs in, SplitResults results, ReadyRows out) {
  __shared__ SplitFactors factors;
  let_next_begin();
  wait_for_previous();
  const uint32_t first_column = (blockIdx.x * kWarps + warp()) * kWarpSize;
  if (first_column >= out.width) return;  // whole warps
  const uint32_t head = first_column / in.shape.head_dim;
  const uint32_t num_joins = in.work.counts().num_joins;
  for (uint32_t index = blockIdx.y; index < num_joins; index += gridDim.y) {
    const AttendJoin join = in.work.join(index);
    if (join.row >= in.num_rows) continue;
    const uint32_t column = first_column + lane() - head * in.shape.head_dim;
    store_ready_block(out, join.row, first_column, join_splits(results, join, head, column, factors));
  }
}

// Joins rows that are cut, and makes all rows ready for a product, if a block of 32 columns may have values
// of two heads. Grid x: rows; y: groups of 256 columns.
__global__ void __launch_bounds__(kThreads)
    make_ready_kernel(AttendInputs in, SplitResults results, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  const uint32_t row = blockIdx.x;
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= out.stride) return;  // whole warps
  AttendJoin join{row, 0, 0};
  const uint32_t num_joins = in.work.counts().num_joins;
  for (uint32_t index = 0; index < num_joins; ++index)
    if (const AttendJoin each = in.work.join(index); each.row == row) join = each;
  float y = 0.0f;
  if (column < out.width && join.num_splits == 0) {
    y = out.values[static_cast<size_t>(row) * out.stride + column];
  } else if (column < out.width) {
    SplitJoin joined_splits;
    for (uint32_t place = join.first_place; place < join.first_place + join.num_splits; ++place) {
      const size_t first = results.first(place, column / results.head_dim);
      const auto factors = joined_splits.add(results.values[first], results.values[first + 1]);
      y = joined(y, results.values[first + 2 + column % results.head_dim], factors);
    }
    y = y / joined_splits.sum;
  }
  store_ready_block(out, row, column - lane(), y);
}

template <KvType kTypeOf>
struct Stored {
  static constexpr KvType kType = kTypeOf;
};

// Calls run with an object whose type has the type of the cache as a constant.
template <typename Run>
cudaError_t with_kv_type(KvType type, const Run& run) {
  switch (type) {
    case KvType::kF16:
      return run(Stored<KvType::kF16>());
    case KvType::kF32:
      return run(Stored<KvType::kF32>());
    case KvType::kQ8_0:
      return run(Stored<KvType::kQ8_0>());
  }
  return cudaErrorInvalidValue;
}

QueryGroups query_groups(const AttentionShape& shape) {
  // More queries of large heads would not find shared memory.
  const uint32_t max_size = shape.head_dim <= 128 ? 8 : 4;
  const uint32_t queries_per_kv_head = shape.num_heads / shape.num_kv_heads;
  const uint32_t per_kv_head = divide_up(queries_per_kv_head, max_size);
  return {shape.num_kv_heads * per_kv_head, per_kv_head, divide_up(queries_per_kv_head, per_kv_head),
          queries_per_kv_head};
}

// The bytes of a split's results.
uint64_t split_bytes(const AttentionShape& shape) {
  return uint64_t{shape.num_heads} * (2 + shape.head_dim) * sizeof(float);
}

}  // namespace

uint32_t attend_groups(const AttentionShape& shape) {
  return query_groups(shape).num_groups;
}

uint32_t attend_tile_rows(const AttentionShape& shape) {
  // Keys and queries of larger heads would not find shared memory.
  return shape.head_dim <= 128 ? kTileQueries / (shape.num_heads / shape.num_kv_heads) : 0;
}

uint32_t max_cut_splits(const AttentionShape& shape, const AttendLimits& limits) {
  const uint64_t max_splits = divide_up(limits.max_positions, kAttendSplit);
  if (max_splits == 1) return 0;
  // A row is cut only if it has more splits than a block computes (attend_plan.h), so few rows are.
  const uint64_t max_rows = std::min(limits.max_rows, divide_up(kAttendBlocks, attend_groups(shape)));
  // The first and the last split of a row may have few positions.
  const uint64_t of_cache = limits.cache_positions / kAttendSplit + 2 * max_rows;
  const uint64_t of_bytes = kMaxAttendWorkspaceBytes / split_bytes(shape);
  return static_cast<uint32_t>(std::min(std::min(max_rows * max_splits, of_cache), of_bytes));
}

uint64_t attend_workspace_floats(const AttentionShape& shape, const AttendLimits& limits) {
  return max_cut_splits(shape, limits) * split_bytes(shape) / sizeof(float);
}

cudaError_t attend(const AttendInputs& in, uint32_t max_positions, Global<float> workspace,
                   const ReadyRows& out, cudaStream_t stream) {
  const SplitResults results{workspace, in.shape.num_heads, in.shape.head_dim};
  const uint32_t max_splits = divide_up(max_positions, kAttendSplit);
  const QueryGroups groups = query_groups(in.shape);
  const uint64_t max_pieces = uint64_t{in.num_rows} * max_splits * groups.num_groups;
  const auto num_blocks = static_cast<uint32_t>(std::min<uint64_t>(max_pieces, kAttendBlocks));
  const cudaError_t status = with_kv_type(in.kv.type, [&]<typename S>(S) {
    cudaError_t launched = cudaSuccess;
    if (in.work.num_tiles > 0) launched = attend_tiles<S::kType>(in, out, stream);
    if (launched != cudaSuccess || !in.work.has_pieces) return launched;
    return attend_rows<S::kType>(in, groups, num_blocks, results, out, stream);
  });
  if (status != cudaSuccess) return status;
  const uint32_t num_column_groups = divide_up(out.stride, kThreads);
  if (!makes_ready(in.shape)) {
    const cudaLaunchConfig_t config = config_of(dim3(in.num_rows, num_column_groups), kThreads, stream);
    return cudaLaunchKernelEx(&config, make_ready_kernel, in, results, out);
  }
  if (max_splits == 1 || !in.work.has_pieces) return cudaSuccess;
  const cudaLaunchConfig_t config =
      config_of(dim3(num_column_groups, std::min(in.num_rows, kJoinRows)), kThreads, stream);
  return cudaLaunchKernelEx(&config, join_splits_kernel, in, results, out);
}

cudaError_t load_attend(KvType type, const AttentionShape& shape) {
  const cudaError_t status = load_all(join_splits_kernel, make_ready_kernel);
  if (status != cudaSuccess) return status;
  return with_kv_type(type, [&]<typename S>(S) {
    const cudaError_t rows = load_attend_rows<S::kType>(shape, query_groups(shape));
    return rows == cudaSuccess ? load_attend_tiles<S::kType>(shape) : rows;
  });
}

}  // namespace runnel
