// Rotates queries and keys, and stores keys and values in the KV cache.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/rotation.h"
#include "cuda-runner/kernels/step_rows.h"
#include "runner/backend/attention_shape.h"

namespace runnel {

// A row of qkv has the queries of all heads, then keys, then values. Queries are normed and rotated in place.
// Keys are normed in place, and rotated when they are written to the cache.
cudaError_t rope_store(const AttentionShape& shape, const Rotation& rotation, const StepRows& rows,
                       uint32_t num_rows, const FloatRows& qkv, const DeviceKv& kv, uint32_t layer,
                       cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_rope_store();

}  // namespace runnel
