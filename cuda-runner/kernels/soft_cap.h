// The cap of logits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"

namespace runnel {

// Replaces the first `width` values of each row by soft_capped of them (runner/backend/nonlinearity.h).
cudaError_t soft_cap(const FloatRows& rows, uint32_t num_rows, uint32_t width, float cap,
                     cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_soft_cap();

}  // namespace runnel
