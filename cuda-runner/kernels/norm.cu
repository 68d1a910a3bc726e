#include <algorithm>
#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {
namespace {

// One thread for each virtual lane of the reduction (docs/numerics.md).
constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarpSize;

using WarpSums = Shared<float, kWarps>;

// The sum of one value of each thread. All threads of the block must call it, and all get the sum.
__device__ inline float sum_of_block(float value, WarpSums& warp_sums) {
  value = tree_sum(value);
  sync_block();  // the sums of the last call have been read
  if (lane() == 0) warp_sums[warp()] = value;
  sync_block();
  float sums[kWarps];
  for (uint32_t i = 0; i < kWarps; ++i) sums[i] = warp_sums[i];
  for (uint32_t half = kWarps / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  return sums[0];
}

// The mean and the scale of a row, from which of() computes the normed values.
struct RowNorm {
  float mean;
  float scale;

  __device__ RowNorm(const FloatRows& in, size_t first, uint32_t width, const DeviceNorm& norm,
                     WarpSums& warp_sums)
      : mean(0.0f) {
    const auto count = static_cast<float>(width);
    if (norm.is_centred) {
      float sum = 0.0f;
#pragma unroll 8
      for (uint32_t i = threadIdx.x; i < width; i += kThreads) sum = sum + in.values[first + i];
      mean = sum_of_block(sum, warp_sums) / count;
    }
    float squares = 0.0f;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < width; i += kThreads) {
      const float d = in.values[first + i] - mean;
      squares = std::fma(d, d, squares);
    }
    scale = 1.0f / std::sqrt(sum_of_block(squares, warp_sums) / count + norm.epsilon);
  }

  __device__ float of(float x, uint32_t i, const DeviceNorm& norm) const {
    const float y = ((x - mean) * scale) * norm.gain[i];
    return norm.is_centred ? y + norm.bias[i] : y;
  }
};

// Grid x: rows; y: parts of a row. Each block reads the whole row, and writes its part.
__global__ void __launch_bounds__(kThreads) norm_kernel(FloatRows in, Global<const uint32_t> chosen,
                                                        bool has_chosen, DeviceNorm norm, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  __shared__ WarpSums warp_sums;
  const uint32_t row = blockIdx.x;
  const size_t first = static_cast<size_t>(has_chosen ? chosen[row] : row) * in.stride;
  const RowNorm row_norm(in, first, out.width, norm, warp_sums);
  for (uint32_t block = blockIdx.y * kThreads + warp() * kBlockColumns; block < out.stride;
       block += gridDim.y * kThreads) {
    const uint32_t i = block + lane();
    const float y = i < out.width ? row_norm.of(in.values[first + i], i, norm) : 0.0f;
    store_ready_block(out, row, block, y);
  }
}

__global__ void __launch_bounds__(kThreads)
    add_normed_kernel(FloatRows in, uint32_t width, DeviceNorm norm, FloatRows out) {
  let_next_begin();
  wait_for_previous();
  __shared__ WarpSums warp_sums;
  const size_t first = static_cast<size_t>(blockIdx.x) * in.stride;
  const RowNorm row_norm(in, first, width, norm, warp_sums);
  for (uint32_t i = threadIdx.x; i < width; i += kThreads) {
    const size_t to = static_cast<size_t>(blockIdx.x) * out.stride + i;
    out.values[to] = row_norm.of(in.values[first + i], i, norm) + out.values[to];
  }
}

}  // namespace

cudaError_t norm(const FloatRows& in, Global<const uint32_t> chosen, bool has_chosen, uint32_t num_rows,
                 const DeviceNorm& norm, const ReadyRows& out, cudaStream_t stream) {
  // Few rows are parted among more blocks, so that a step of one row does not wait for one multiprocessor.
  constexpr uint32_t kManyBlocks = 128;
  const uint32_t num_parts = std::clamp(kManyBlocks / num_rows, 1u, divide_up(out.stride, kThreads));
  const cudaLaunchConfig_t config = config_of(dim3(num_rows, num_parts), kThreads, stream);
  return cudaLaunchKernelEx(&config, norm_kernel, in, chosen, has_chosen, norm, out);
}

cudaError_t add_normed(const FloatRows& in, uint32_t num_rows, uint32_t width, const DeviceNorm& norm,
                       const FloatRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(num_rows), kThreads, stream);
  return cudaLaunchKernelEx(&config, add_normed_kernel, in, width, norm, out);
}

cudaError_t load_norm() {
  return load_all(norm_kernel, add_normed_kernel);
}

}  // namespace runnel
