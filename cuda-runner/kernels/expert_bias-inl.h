// The biases of experts.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/experts.h"

namespace runnel {

// The product of row lane() of a tile of the matrices of all experts, with the row's bias. first: the number
// of the matrices' first bias.
__device__ inline float with_bias(float product, const ExpertBias& bias, uint32_t first, uint32_t tile) {
  if (!bias.is_there) return product;
  return product + bias.values.load_read_only<float>(first + tile * kWarpTileRows + lane());
}

}  // namespace runnel
