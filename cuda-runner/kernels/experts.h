// The experts of a mixture-of-experts layer: the choice of experts for each row, and their feed-forward
// parts. A row together with one of the num_used experts that it uses is called a use. Its number is row *
// num_used + i, where i = 0 is the expert with the largest logit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"
#include "runner/backend/nonlinearity.h"

namespace runnel {

struct ExpertUses {
  Global<uint32_t> experts;  // (num_rows, num_used)
  Global<float> weights;     // (num_rows, num_used)
  uint32_t num_used;
};

// A bias of each row of the matrices of all experts, or none.
struct ExpertBias {
  bool is_there = false;
  Global<const float> values = {};
};

// Chooses the experts and their weights from the router's logits (num_rows, num_experts).
cudaError_t choose_experts(const FloatRows& logits, uint32_t num_experts, uint32_t num_rows,
                           const ExpertUses& uses, cudaStream_t stream);

// out[use] = f(gate of the expert times the use's row of in) * (up of the expert times the same row), ready
// for a product. gate and up have the matrices of all experts one after the other, each of out.width rows.
// out.width must be a multiple of 32. bias: of gate, then of up.
cudaError_t expert_gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, const ExpertBias& bias,
                                  Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows,
                                  const ExpertUses& uses, const ReadyRows& out, cudaStream_t stream);

// out[row] += the sum over the row's uses, in order, of weight * (down of the expert times in[use] + bias).
// down has the matrices of all experts one after the other, each of width rows. width must be a multiple of
// 32.
cudaError_t add_expert_output(const DeviceMatrix& down, const ExpertBias& bias, uint32_t width,
                              const ReadyRows& in, uint32_t num_rows, const ExpertUses& uses,
                              const FloatRows& out, cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_experts();

}  // namespace runnel
