// Loops of single instructions, which show what the device reaches at most.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

// The results of a loop, which keep the compiler from leaving it out: one of each thread of all blocks.
uint64_t peak_results();

// Launch a loop of mma_s8, or of fma, on the whole device. Return the multiplications and additions of all
// threads.
struct PeakLoop {
  cudaError_t status;
  uint64_t operations;
};
PeakLoop peak_of_mma(uint32_t num_iterations, Global<uint32_t> results, cudaStream_t stream);
PeakLoop peak_of_fma(uint32_t num_iterations, Global<uint32_t> results, cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_peaks();

}  // namespace runnel
