#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/make_ready.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 256;

// Grid x: rows; y: groups of 256 columns.
__global__ void __launch_bounds__(kThreads) make_ready_kernel(FloatRows in, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  const uint32_t row = blockIdx.x;
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= out.stride) return;  // whole warps
  const size_t index = static_cast<size_t>(row) * in.stride + column;
  store_ready_block(out, row, column - lane(), column < out.width ? float{in.values[index]} : 0.0f);
}

}  // namespace

cudaError_t make_ready(const FloatRows& in, uint32_t num_rows, const ReadyRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config =
      config_of(dim3(num_rows, divide_up(out.stride, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, make_ready_kernel, in, out);
}

cudaError_t load_make_ready() {
  return load_all(make_ready_kernel);
}

}  // namespace runnel
