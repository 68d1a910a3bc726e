// Rows of a matrix as floats.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"

namespace runnel {

// What tokens are looked up in, and their positions if those are learned.
struct EmbeddingTables {
  DeviceMatrix tokens;
  float scale = 1.0f;  // of the tokens' rows
  bool has_positions = false;
  DeviceMatrix positions = {};
};

// out[row] = scale times the row of token_ids[row], + the row of positions[row].
cudaError_t embed(const EmbeddingTables& tables, Global<const uint32_t> token_ids,
                  Global<const uint32_t> positions, uint32_t num_rows, const FloatRows& out,
                  cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_embed();

}  // namespace runnel
