// Turns queries and keys, and stores keys and values in the cache.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/step_rows.h"
#include "runner/attention_shape.h"

namespace runnel {

// A norm of each head, before it is turned.
struct HeadNorm {
  bool is_there = false;
  Global<const float> gain = {};  // (head_dim)
  float epsilon = 0.0f;
};

struct HeadNorms {
  HeadNorm of_queries;
  HeadNorm of_keys;
};

// qkv rows hold queries, then keys, then values, as runner/backend.h says. Queries are normed and turned in
// place; keys are normed in place and turned on their way to the cache. angles (num_rows, rotary_dim):
// rope_angles made them for these rows.
cudaError_t rope_store(const AttentionShape& shape, const Rope& rope, const HeadNorms& norms,
                       Global<const float> angles, const StepRows& rows, uint32_t num_rows,
                       const FloatRows& qkv, const DeviceKv& kv, uint32_t layer, cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_rope_store();

}  // namespace runnel
