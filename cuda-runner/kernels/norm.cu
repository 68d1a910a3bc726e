#include <algorithm>
#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/norm_row-inl.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {
namespace {

// One thread for each virtual lane of the reduction.
constexpr uint32_t kThreads = kNormLanes;

using WarpSums = Shared<float, kNormWarps>;

// The sum of one value of each thread. All threads of the block must call it, and all get the sum. A block
// uses the memory once.
__device__ inline float sum_of_block(float value, WarpSums& warp_sums) {
  value = tree_sum(value);
  if (lane() == 0) warp_sums[warp()] = value;
  sync_block();
  return sum_of_warps(warp_sums, 0);
}

// Values that a thread keeps in registers.
using ThreadLane = RowLane<32>;

// What a column is multiplied by, and what is added.
struct ColumnWeights {
  float gain = 0.0f;
  float bias = 0.0f;

  __device__ ColumnWeights(const DeviceNorm& norm, uint32_t column, uint32_t width) {
    if (column >= width) return;
    gain = norm.gain.load_read_only<float>(column);
    if (norm.is_centred) bias = norm.bias.load_read_only<float>(column);
  }
};

// The mean and the scale of a row, from which of() computes the normed values.
struct RowNorm {
  float mean = 0.0f;
  float scale;
  bool is_centred;

  __device__ RowNorm(const ThreadLane& row, uint32_t width, const DeviceNorm& norm)
      : is_centred(norm.is_centred) {
    __shared__ WarpSums sums;
    __shared__ WarpSums squares;
    const auto count = static_cast<float>(width);
    if (is_centred) mean = sum_of_block(row.sum([](float sum, float x) { return sum + x; }), sums) / count;
    const float lane_squares = row.sum([&](float sum, float x) { return std::fma(x - mean, x - mean, sum); });
    scale = 1.0f / std::sqrt(sum_of_block(lane_squares, squares) / count + norm.epsilon);
  }

  __device__ float of(float x, const ColumnWeights& weights) const {
    const float y = ((x - mean) * scale) * weights.gain;
    return is_centred ? y + weights.bias : y;
  }
};

// Grid x: rows; y: parts of a row. Each block reads the whole row, and writes its part.
__global__ void __launch_bounds__(kThreads) norm_kernel(FloatRows in, Global<const uint32_t> chosen,
                                                        bool has_chosen, DeviceNorm norm, ReadyRows out) {
  let_next_begin();
  uint32_t i = blockIdx.y * kThreads + threadIdx.x;
  ColumnWeights weights(norm, i, out.width);
  wait_for_previous();
  const uint32_t row = blockIdx.x;
  const size_t first = static_cast<size_t>(has_chosen ? chosen[row] : row) * in.stride;
  const auto value_of = [&](uint32_t column) {
    return column < out.width ? float{in.values[first + column]} : 0.0f;
  };
  float x = value_of(i);
  const RowNorm row_norm(ThreadLane(in, first, out.width, threadIdx.x), out.width, norm);
  while (i - lane() < out.stride) {
    const uint32_t block = i - lane();
    const float y = i < out.width ? row_norm.of(x, weights) : 0.0f;
    i += gridDim.y * kThreads;
    x = value_of(i);
    weights = ColumnWeights(norm, i, out.width);
    store_ready_block(out, row, block, y);
  }
}

// The same grid.
__global__ void __launch_bounds__(kThreads)
    add_normed_kernel(FloatRows in, uint32_t width, DeviceNorm norm, FloatRows out) {
  let_next_begin();
  const uint32_t begin = blockIdx.y * kThreads + threadIdx.x;
  const ColumnWeights first_weights(norm, begin, width);
  wait_for_previous();
  const size_t first = static_cast<size_t>(blockIdx.x) * in.stride;
  const RowNorm row_norm(ThreadLane(in, first, width, threadIdx.x), width, norm);
  for (uint32_t i = begin; i < width; i += gridDim.y * kThreads) {
    const ColumnWeights weights = i == begin ? first_weights : ColumnWeights(norm, i, width);
    const size_t to = static_cast<size_t>(blockIdx.x) * out.stride + i;
    out.values[to] = row_norm.of(in.values[first + i], weights) + out.values[to];
  }
}

// Grid x: rows; y: queries, keys. A thread reads the values that it replaces, and no others.
__global__ void __launch_bounds__(kThreads)
    norm_columns_kernel(FloatRows rows, NormedColumns queries, NormedColumns keys) {
  let_next_begin();
  wait_for_previous();
  const NormedColumns columns = blockIdx.y == 0 ? queries : keys;
  const size_t first = static_cast<size_t>(blockIdx.x) * rows.stride + columns.first;
  const RowNorm row_norm(ThreadLane(rows, first, columns.width, threadIdx.x), columns.width, columns.norm);
  for (uint32_t i = threadIdx.x; i < columns.width; i += kThreads)
    rows.values[first + i] =
        row_norm.of(rows.values[first + i], ColumnWeights(columns.norm, i, columns.width));
}

// Few rows are parted among more blocks, so that a step of one row does not wait for one multiprocessor.
dim3 grid_of(uint32_t num_rows, uint32_t width) {
  constexpr uint32_t kManyBlocks = 128;
  return {num_rows, std::clamp(kManyBlocks / num_rows, 1u, divide_up(width, kThreads)), 1};
}

}  // namespace

cudaError_t norm(const FloatRows& in, Global<const uint32_t> chosen, bool has_chosen, uint32_t num_rows,
                 const DeviceNorm& norm, const ReadyRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(grid_of(num_rows, out.stride), kThreads, stream);
  return cudaLaunchKernelEx(&config, norm_kernel, in, chosen, has_chosen, norm, out);
}

cudaError_t add_normed(const FloatRows& in, uint32_t num_rows, uint32_t width, const DeviceNorm& norm,
                       const FloatRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(grid_of(num_rows, width), kThreads, stream);
  return cudaLaunchKernelEx(&config, add_normed_kernel, in, width, norm, out);
}

cudaError_t norm_columns(const FloatRows& rows, uint32_t num_rows, const NormedColumns& queries,
                         const NormedColumns& keys, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(num_rows, 2), kThreads, stream);
  return cudaLaunchKernelEx(&config, norm_columns_kernel, rows, queries, keys);
}

cudaError_t load_norm() {
  return load_all(norm_kernel, add_normed_kernel, norm_columns_kernel);
}

}  // namespace runnel
