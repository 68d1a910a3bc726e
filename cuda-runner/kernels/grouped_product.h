// Products of the matrices of experts and the groups of rows that use them (use_groups.h). The bits are those
// of experts.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/experts.h"
#include "cuda-runner/kernels/use_groups.h"

namespace runnel {

// Whether the device has the shared memory that grouped products with weights of the type take.
bool has_grouped_products(TensorType type);

// out[use] = what expert_gated_multiply makes of it, where in has what gather_rows gives: for each place of
// the groups the row of the use. gate and up must be of the same type.
cudaError_t grouped_gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, const ExpertBias& bias,
                                   Nonlinearity nonlinearity, const ReadyRows& in, const UseGroups& groups,
                                   const ReadyRows& out, cudaStream_t stream);

// out[use - first_use] = down of the expert times the row of in at the use's place, + bias. width: rows of an
// expert's matrix, a multiple of 32.
cudaError_t grouped_multiply(const DeviceMatrix& down, const ExpertBias& bias, uint32_t width,
                             const ReadyRows& in, const UseGroups& groups, uint32_t first_use,
                             const FloatRows& out, cudaStream_t stream);

// Loads the kernels for a type of weights: see load.h.
cudaError_t load_grouped_products(TensorType type);

}  // namespace runnel
