// Turns queries and keys, and stores keys and values in the cache.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/step_rows.h"
#include "runner/attention_shape.h"

namespace runnel {

// qkv rows hold queries, then keys, then values, as runner/backend.h says. Queries are turned in place, keys
// on their way to the cache. angles (num_rows, rotary_dim): rope_angles made them for these rows.
cudaError_t rope_store(const AttentionShape& shape, const Rope& rope, Global<const float> angles,
                       const StepRows& rows, uint32_t num_rows, const FloatRows& qkv, const DeviceKv& kv,
                       uint32_t layer, cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_rope_store();

}  // namespace runnel
