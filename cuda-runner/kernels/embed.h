// Rows of a matrix as floats.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"

namespace runnel {

// out[row] = table's row token_ids[row].
cudaError_t embed(const DeviceMatrix& table, Global<const uint32_t> token_ids, uint32_t num_rows,
                  const FloatRows& out, cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_embed();

}  // namespace runnel
