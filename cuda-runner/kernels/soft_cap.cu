#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/soft_cap.h"
#include "runner/backend/nonlinearity.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 256;

// Grid x: rows; y: groups of 256 columns.
__global__ void __launch_bounds__(kThreads) soft_cap_kernel(FloatRows rows, uint32_t width, float cap) {
  let_next_begin();
  wait_for_previous();
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= width) return;
  const size_t index = static_cast<size_t>(blockIdx.x) * rows.stride + column;
  rows.values[index] = soft_capped(rows.values[index], cap);
}

}  // namespace

cudaError_t soft_cap(const FloatRows& rows, uint32_t num_rows, uint32_t width, float cap,
                     cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(num_rows, divide_up(width, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, soft_cap_kernel, rows, width, cap);
}

cudaError_t load_soft_cap() {
  return load_all(soft_cap_kernel);
}

}  // namespace runnel
