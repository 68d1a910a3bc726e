// Root-mean-square norm, made ready for a product.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows.h"

namespace runnel {

// out[row] = in[row] / sqrt(mean(in[row]^2) + epsilon) * gain. With has_chosen, in's row is chosen[row].
cudaError_t norm(const FloatRows& in, Global<const uint32_t> chosen, bool has_chosen, uint32_t num_rows,
                 Global<const float> gain, float epsilon, const ReadyRows& out, cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_norm();

}  // namespace runnel
