// Feed-forward parts of experts: which of them a row uses, and what it computes with them. A row and one of
// the num_used experts that it uses are a use: number row * num_used + i, the largest logit's first.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"
#include "runner/nonlinearity.h"

namespace runnel {

struct ExpertUses {
  Global<uint32_t> experts;  // (num_rows, num_used)
  Global<float> weights;     // the same
  uint32_t num_used;
};

// Of rows whose router gave these logits, of num_experts.
cudaError_t choose_experts(const FloatRows& logits, uint32_t num_experts, uint32_t num_rows,
                           const ExpertUses& uses, cudaStream_t stream);

// out[use] = f(gate of its expert times in's row) x (up of it times in's row), ready for a product. gate and
// up have out.width rows of each expert in turn, a multiple of 32.
cudaError_t expert_gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                                  const ReadyRows& in, uint32_t num_rows, const ExpertUses& uses,
                                  const ReadyRows& out, cudaStream_t stream);

// out[row] = sum over its uses, in order, of weight * (down of the expert times in[use]), + out[row]. down
// has width rows of each expert in turn, a multiple of 32.
cudaError_t add_expert_output(const DeviceMatrix& down, uint32_t width, const ReadyRows& in,
                              uint32_t num_rows, const ExpertUses& uses, const FloatRows& out,
                              cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_experts();

}  // namespace runnel
