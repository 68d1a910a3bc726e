#include <bit>
#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/peak.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kBlocksOfMultiprocessor = 2;
// Instructions of a thread that do not wait for each other.
constexpr uint32_t kChains = 8;

uint32_t num_blocks() {
  return num_multiprocessors() * kBlocksOfMultiprocessor;
}

__global__ void __launch_bounds__(kThreads, kBlocksOfMultiprocessor)
    mma_loop_kernel(uint32_t num_iterations, Global<uint32_t> results) {
  let_next_begin();
  wait_for_previous();
  const uint32_t a[4] = {threadIdx.x, 1, 2, 3};
  const uint32_t b[2] = {4, threadIdx.x};
  int32_t sums[kChains][4] = {};
  for (uint32_t i = 0; i < num_iterations; ++i) {
#pragma unroll
    for (uint32_t chain = 0; chain < kChains; ++chain) mma_s8(sums[chain], a, b, sums[chain]);
  }
  int32_t result = 0;
  for (const auto& four : sums)
    for (const int32_t sum : four) result ^= sum;
  results[blockIdx.x * kThreads + threadIdx.x] = static_cast<uint32_t>(result);
}

__global__ void __launch_bounds__(kThreads, kBlocksOfMultiprocessor)
    fma_loop_kernel(uint32_t num_iterations, float factor, Global<uint32_t> results) {
  let_next_begin();
  wait_for_previous();
  float sums[kChains];
  for (uint32_t chain = 0; chain < kChains; ++chain) sums[chain] = static_cast<float>(threadIdx.x + chain);
  for (uint32_t i = 0; i < num_iterations; ++i) {
#pragma unroll
    for (uint32_t chain = 0; chain < kChains; ++chain) sums[chain] = std::fma(sums[chain], factor, factor);
  }
  float result = 0.0f;
  for (const float sum : sums) result = result + sum;
  results[blockIdx.x * kThreads + threadIdx.x] = std::bit_cast<uint32_t>(result);
}

}  // namespace

uint64_t peak_results() {
  return uint64_t{num_blocks()} * kThreads;
}

PeakLoop peak_of_mma(uint32_t num_iterations, Global<uint32_t> results, cudaStream_t stream) {
  constexpr uint64_t kProducts = 16 * 32 * 8;  // of a warp
  const cudaLaunchConfig_t config = config_of(dim3(num_blocks()), kThreads, stream);
  return {cudaLaunchKernelEx(&config, mma_loop_kernel, num_iterations, results),
          peak_results() / kWarpSize * num_iterations * kChains * 2 * kProducts};
}

PeakLoop peak_of_fma(uint32_t num_iterations, Global<uint32_t> results, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(num_blocks()), kThreads, stream);
  return {cudaLaunchKernelEx(&config, fma_loop_kernel, num_iterations, 0.5f, results),
          peak_results() * num_iterations * kChains * 2};
}

cudaError_t load_peaks() {
  return load_all(mma_loop_kernel, fma_loop_kernel);
}

}  // namespace runnel
