#include <cmath>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/expert_bias-inl.h"
#include "cuda-runner/kernels/experts.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/vector_product-inl.h"
#include "runner/backend/expert_rank.h"
#include "runner/formats/weight_type.h"

namespace runnel {
namespace {

// Rows use different experts, so each use is a separate product with one row.
template <TensorType kType>
using Product = VectorProduct<kType, 1>;
// Neither its size nor its number of threads depends on the type.
using AnyProduct = Product<TensorType::kF32>;
using Memory = VectorProductMemory<1>;

// The product of the tile's row lane() and row `row`, in the first warp.
__device__ float product(const DeviceMatrix& matrix, uint32_t tile, const ReadyRows& in, uint32_t row,
                         uint32_t num_rows, Memory& memory) {
  return with_weight_type(matrix.type, [&](auto type) {
    return Product<type>::compute(matrix, tile, in, row, num_rows, memory);
  });
}

// Grid x: rows, one warp for each.
__global__ void __launch_bounds__(kWarpSize)
    choose_experts_kernel(FloatRows logits, uint32_t num_experts, ExpertUses uses) {
  let_next_begin();
  wait_for_previous();
  const size_t first_logit = static_cast<size_t>(blockIdx.x) * logits.stride;
  const size_t first_use = static_cast<size_t>(blockIdx.x) * uses.num_used;
  uint64_t last = UINT64_MAX;
  float largest = 0.0f;
  float sum = 0.0f;
  for (uint32_t i = 0; i < uses.num_used; ++i) {
    uint64_t best = 0;
    for (uint32_t expert = lane(); expert < num_experts; expert += kWarpSize) {
      const uint64_t rank = expert_rank(logits.values[first_logit + expert], expert);
      if (rank < last && rank > best) best = rank;
    }
    for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) {
      const uint64_t other = shuffle_xor_wide(best, mask);
      best = other > best ? other : best;
    }
    last = best;
    const float logit = logits.values[first_logit + expert_of_rank(best)];
    if (i == 0) largest = logit;
    const float weight = exp_f32(logit - largest);
    sum = sum + weight;
    if (lane() == 0) {
      uses.experts[first_use + i] = expert_of_rank(best);
      uses.weights[first_use + i] = weight;
    }
  }
  if (lane() != 0) return;
  for (uint32_t i = 0; i < uses.num_used; ++i)
    uses.weights[first_use + i] = uses.weights[first_use + i] / sum;
}

// Grid x: uses; y: tiles of an expert.
__global__ void __launch_bounds__(AnyProduct::kMaxThreads, AnyProduct::kMinBlocks)
    expert_gated_multiply_kernel(DeviceMatrix gate, DeviceMatrix up, ExpertBias bias,
                                 Nonlinearity nonlinearity, ReadyRows in, uint32_t num_rows, ExpertUses uses,
                                 ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  __shared__ Memory memory;
  const uint32_t use = blockIdx.x;
  const uint32_t tile = uses.experts[use] * gridDim.y + blockIdx.y;
  const uint32_t row = use / uses.num_used;
  const float gated = product(gate, tile, in, row, num_rows, memory);
  const float scaled = product(up, tile, in, row, num_rows, memory);
  if (warp() != 0) return;
  const float y =
      apply_gate(nonlinearity, with_bias(gated, bias, 0, tile), with_bias(scaled, bias, gate.rows, tile));
  store_ready_block(out, use, blockIdx.y * kWarpTileRows, y);
}

// Grid x: rows; y: tiles of an expert.
__global__ void __launch_bounds__(AnyProduct::kMaxThreads, AnyProduct::kMinBlocks)
    add_expert_output_kernel(DeviceMatrix down, ExpertBias bias, ReadyRows in, uint32_t num_uses,
                             ExpertUses uses, FloatRows out) {
  let_next_begin();
  wait_for_previous();
  __shared__ Memory memory;
  const uint32_t row = blockIdx.x;
  float sum = 0.0f;
  for (uint32_t i = 0; i < uses.num_used; ++i) {
    const uint32_t use = row * uses.num_used + i;
    const uint32_t tile = uses.experts[use] * gridDim.y + blockIdx.y;
    const float y = product(down, tile, in, use, num_uses, memory);
    if (warp() == 0) sum = std::fma(uses.weights[use], with_bias(y, bias, 0, tile), sum);
  }
  if (warp() != 0) return;
  const size_t index = static_cast<size_t>(row) * out.stride + blockIdx.y * kWarpTileRows + lane();
  out.values[index] = sum + out.values[index];
}

uint32_t num_threads(const DeviceMatrix& matrix) {
  return AnyProduct::num_threads(matrix.columns);
}

}  // namespace

cudaError_t choose_experts(const FloatRows& logits, uint32_t num_experts, uint32_t num_rows,
                           const ExpertUses& uses, cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(num_rows), kWarpSize, stream);
  return cudaLaunchKernelEx(&config, choose_experts_kernel, logits, num_experts, uses);
}

cudaError_t expert_gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, const ExpertBias& bias,
                                  Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows,
                                  const ExpertUses& uses, const ReadyRows& out, cudaStream_t stream) {
  const dim3 grid(num_rows * uses.num_used, out.width / kWarpTileRows);
  const cudaLaunchConfig_t config = config_of(grid, num_threads(gate), stream);
  return cudaLaunchKernelEx(&config, expert_gated_multiply_kernel, gate, up, bias, nonlinearity, in, num_rows,
                            uses, out);
}

cudaError_t add_expert_output(const DeviceMatrix& down, const ExpertBias& bias, uint32_t width,
                              const ReadyRows& in, uint32_t num_rows, const ExpertUses& uses,
                              const FloatRows& out, cudaStream_t stream) {
  const dim3 grid(num_rows, width / kWarpTileRows);
  const cudaLaunchConfig_t config = config_of(grid, num_threads(down), stream);
  return cudaLaunchKernelEx(&config, add_expert_output_kernel, down, bias, in, num_rows * uses.num_used, uses,
                            out);
}

cudaError_t load_experts() {
  return load_all(choose_experts_kernel, expert_gated_multiply_kernel, add_expert_output_kernel);
}

}  // namespace runnel
