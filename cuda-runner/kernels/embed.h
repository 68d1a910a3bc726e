// Looks up the embeddings of tokens, and of positions if those are learned.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"

namespace runnel {

struct EmbeddingTables {
  DeviceMatrix tokens;
  float scale = 1.0f;  // multiplies the rows of tokens
  bool has_positions = false;
  DeviceMatrix positions = {};
  uint32_t first_token = 0;  // the id of the first row of tokens
};

// out[row] = scale * tables.tokens[token_ids[row]], + tables.positions[positions[row]] if has_positions, as
// floats. Leaves rows out whose token has no row in the table.
cudaError_t embed(const EmbeddingTables& tables, Global<const uint32_t> token_ids,
                  Global<const uint32_t> positions, uint32_t num_rows, const FloatRows& out,
                  cudaStream_t stream);

// out[row] = in[row], of this width, for rows whose token id is one of num_tokens from first_token on.
cudaError_t take_rows_of(uint32_t first_token, uint32_t num_tokens, Global<const uint32_t> token_ids,
                         const FloatRows& in, uint32_t num_rows, uint32_t width, const FloatRows& out,
                         cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_embed();

}  // namespace runnel
