#include "cuda-runner/device/probe.h"
#include "cuda-runner/kernels/lang.h"
#include "cuda-runner/kernels/launch.h"

namespace runnel {
namespace {

// An unusual number, so that leftover bytes in memory cannot look like the output.
constexpr uint32_t kFactor = 2654435761u;

__global__ void __launch_bounds__(kProbeThreads) probe_kernel(Global<uint32_t> out) {
  let_next_begin();
  wait_for_previous();
  __shared__ Shared<uint32_t, kProbeThreads> values;
  values[threadIdx.x] = threadIdx.x * kFactor;
  sync_block();
  const uint32_t other = values[kProbeThreads - 1 - threadIdx.x];
  out[threadIdx.x] = shuffle_xor(other, 1);
}

}  // namespace

uint32_t probe_value(uint32_t thread) {
  return (kProbeThreads - 1 - (thread ^ 1)) * kFactor;
}

cudaError_t launch_probe(Global<uint32_t> out, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(1), kProbeThreads, stream);
  return cudaLaunchKernelEx(&config, probe_kernel, out);
}

}  // namespace runnel
