// Kernels are loaded on the device when they are launched first. That may wait for the device and allocate,
// which the capture of a graph must not: to ask about a kernel loads it too.
#pragma once

#include <cuda_runtime.h>

namespace runnel {

template <typename Kernel>
cudaError_t load(Kernel* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

// One after the other, until one fails.
template <typename... Kernels>
cudaError_t load_all(Kernels*... kernels) {
  cudaError_t status = cudaSuccess;
  static_cast<void>(((status = load(kernels), status == cudaSuccess) && ...));
  return status;
}

}  // namespace runnel
