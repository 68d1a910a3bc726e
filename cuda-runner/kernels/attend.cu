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

// Joins the splits of each row. Grid x: groups of 256 columns; y: rows.
__global__ void __launch_bounds__(kThreads)
    join_splits_kernel(Global<const uint32_t> positions, uint32_t window, SplitResults results,
                       ReadyRows out) {
  let_next_begin();
  wait_for_previous();
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

// Makes rows ready for a product whose values are computed. This is a separate kernel, because a block of 32
// columns may have values of two heads. Grid x: rows; y: groups of 256 columns.
__global__ void __launch_bounds__(kThreads) make_ready_kernel(ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= out.stride) return;  // whole warps
  const size_t index = static_cast<size_t>(blockIdx.x) * out.stride + column;
  store_ready_block(out, blockIdx.x, column - lane(), column < out.width ? out.values[index] : 0.0f);
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

uint64_t floats_a_row(const AttentionShape& shape, uint32_t max_positions) {
  const uint64_t num_splits = divide_up(max_positions, kSplitPositions);
  return num_splits * shape.num_heads * (2 + shape.head_dim);
}

// The largest number of rows for which splits are computed in parallel.
uint32_t max_split_rows(const AttentionShape& shape, uint32_t max_positions) {
  const uint64_t fitting = kMaxAttendWorkspaceBytes / (sizeof(float) * floats_a_row(shape, max_positions));
  return static_cast<uint32_t>(std::min<uint64_t>(kMaxSplitRows, fitting));
}

cudaError_t compute_rows(const AttendInputs& in, const ReadyRows& out, cudaStream_t stream) {
  const cudaError_t status = with_kv_type(in.kv.type, [&]<typename S>(S) {
    return attend_rows<S::kType>(in, {out.values, out.stride}, stream);
  });
  if (status != cudaSuccess) return status;
  const cudaLaunchConfig_t config =
      config_of(dim3(in.num_rows, divide_up(out.stride, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, make_ready_kernel, out);
}

cudaError_t compute_splits(const AttendInputs& in, uint32_t max_positions, Global<float> workspace,
                           const ReadyRows& out, cudaStream_t stream) {
  const uint32_t num_splits = divide_up(max_positions, kSplitPositions);
  const SplitResults results{workspace, in.shape.num_heads, num_splits, in.shape.head_dim};
  const cudaError_t status =
      with_kv_type(in.kv.type, [&]<typename S>(S) { return attend_splits<S::kType>(in, results, stream); });
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
  if (in.num_rows > max_split_rows(in.shape, max_positions)) return compute_rows(in, out, stream);
  return compute_splits(in, max_positions, workspace, out, stream);
}

cudaError_t load_attend(KvType type) {
  const cudaError_t status = load_all(join_splits_kernel, make_ready_kernel);
  if (status != cudaSuccess) return status;
  return with_kv_type(type, []<typename S>(S) {
    const cudaError_t rows = load_attend_rows<S::kType>();
    return rows == cudaSuccess ? load_attend_splits<S::kType>() : rows;
  });
}

}  // namespace runnel
