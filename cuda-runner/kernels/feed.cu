#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/feed.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 128;

// Grid x: groups of 128 rows.
__global__ void __launch_bounds__(kThreads)
    feed_kernel(Global<const uint32_t> drawn, Global<uint32_t> token_ids, uint32_t num_rows) {
  let_next_begin();
  wait_for_previous();
  const uint32_t row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= num_rows) return;
  const uint32_t id = drawn[uint32_t{token_ids[row]}];
  token_ids[row] = id == kNotFinite ? 0 : id;
}

}  // namespace

cudaError_t feed(Global<const uint32_t> drawn, Global<uint32_t> token_ids, uint32_t num_rows,
                 cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(divide_up(num_rows, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, feed_kernel, drawn, token_ids, num_rows);
}

cudaError_t load_feed() {
  return load_all(feed_kernel);
}

}  // namespace runnel
