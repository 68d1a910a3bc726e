// Loads kernels on the device. CUDA otherwise loads a kernel at its first launch. That may wait for the
// device and allocate memory, which is not allowed while a graph is captured. A query of a kernel's
// attributes loads it too.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace runnel {

template <typename Kernel>
cudaError_t load(Kernel* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

// Loads a kernel that is launched with so many bytes of dynamic_shared().
template <typename Kernel>
cudaError_t load(Kernel* kernel, uint32_t dynamic_bytes) {
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(dynamic_bytes));
  return status == cudaSuccess ? load(kernel) : status;
}

// Loads the kernels in order. Stops at the first failure and returns its error.
template <typename... Kernels>
cudaError_t load_all(Kernels*... kernels) {
  cudaError_t status = cudaSuccess;
  static_cast<void>(((status = load(kernels), status == cudaSuccess) && ...));
  return status;
}

}  // namespace runnel
