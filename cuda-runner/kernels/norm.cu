#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {
namespace {

// The virtual lanes of the reduction: docs/numerics.md.
constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarpSize;

// A block for each row.
__global__ void __launch_bounds__(kThreads)
    norm_kernel(FloatRows in, Global<const uint32_t> chosen, bool has_chosen, Global<const float> gain,
                float epsilon, ReadyRows out) {
  __shared__ Shared<float, kWarps> warp_sums;
  const uint32_t row = blockIdx.x;
  const size_t first = static_cast<size_t>(has_chosen ? chosen[row] : row) * in.stride;
  float sum = 0.0f;
  for (uint32_t i = threadIdx.x; i < out.width; i += kThreads) {
    const float x = in.values[first + i];
    sum = std::fma(x, x, sum);
  }
  sum = tree_sum(sum);
  if (lane() == 0) warp_sums[warp()] = sum;
  sync_block();

  float sums[kWarps];
  for (uint32_t i = 0; i < kWarps; ++i) sums[i] = warp_sums[i];
  for (uint32_t half = kWarps / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  const float scale = 1.0f / std::sqrt(sums[0] / static_cast<float>(out.width) + epsilon);
  for (uint32_t block = warp() * kBlockColumns; block < out.stride; block += kThreads) {
    const uint32_t i = block + lane();
    const float y = i < out.width ? (in.values[first + i] * scale) * gain[i] : 0.0f;
    store_ready_block(out, row, block, y);
  }
}

}  // namespace

cudaError_t norm(const FloatRows& in, Global<const uint32_t> chosen, bool has_chosen, uint32_t num_rows,
                 Global<const float> gain, float epsilon, const ReadyRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(num_rows), kThreads, stream);
  return cudaLaunchKernelEx(&config, norm_kernel, in, chosen, has_chosen, gain, epsilon, out);
}

cudaError_t load_norm() {
  return load_all(norm_kernel);
}

}  // namespace runnel
