// Rows as they are, ready for a product.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows.h"

namespace runnel {

// out[row] = in[row], ready for a product. in may be the values of out.
cudaError_t make_ready(const FloatRows& in, uint32_t num_rows, const ReadyRows& out, cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_make_ready();

}  // namespace runnel
