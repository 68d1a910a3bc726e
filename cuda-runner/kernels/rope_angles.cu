#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/rope_angles.h"
#include "runner/backend/numerics.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 128;

// Each thread computes one pair of a row.
__global__ void __launch_bounds__(kThreads)
    rope_angles_kernel(Global<const uint32_t> positions, uint32_t num_rows, Global<const double> frequencies,
                       uint32_t num_pairs, double magnitude, Global<float> angles) {
  let_next_begin();
  wait_for_previous();
  const size_t index = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const size_t row = index / num_pairs;
  if (row >= num_rows) return;
  const SinCos turn = sin_cos_f64(positions[row] * frequencies[index % num_pairs]);
  angles[2 * index] = static_cast<float>(turn.cos * magnitude);
  angles[2 * index + 1] = static_cast<float>(turn.sin * magnitude);
}

}  // namespace

cudaError_t rope_angles(Global<const uint32_t> positions, uint32_t num_rows, Global<const double> frequencies,
                        uint32_t num_pairs, double magnitude, Global<float> angles, cudaStream_t stream) {
  const cudaLaunchConfig_t config =
      config_of(dim3(divide_up(num_rows * num_pairs, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, rope_angles_kernel, positions, num_rows, frequencies, num_pairs,
                            magnitude, angles);
}

cudaError_t load_rope_angles() {
  return load_all(rope_angles_kernel);
}

}  // namespace runnel
