// Norms of rows, made ready for a product or added to other rows, and of columns of rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows.h"

namespace runnel {

// y = x / sqrt(mean(x^2) + epsilon) * gain. A centred norm (LayerNorm) subtracts the mean from x first, and
// adds bias at the end.
struct DeviceNorm {
  Global<const float> gain;
  float epsilon;
  bool is_centred = false;
  Global<const float> bias = {};
};

// out[row] = norm of in[row], or with has_chosen, of in[chosen[row]]; ready for a product.
cudaError_t norm(const FloatRows& in, Global<const uint32_t> chosen, bool has_chosen, uint32_t num_rows,
                 const DeviceNorm& norm, const ReadyRows& out, cudaStream_t stream);

// out[row] = out[row] + norm of in[row], for rows of width values.
cudaError_t add_normed(const FloatRows& in, uint32_t num_rows, uint32_t width, const DeviceNorm& norm,
                       const FloatRows& out, cudaStream_t stream);

// Columns of rows that a norm replaces.
struct NormedColumns {
  uint32_t first;
  uint32_t width;
  DeviceNorm norm;  // not centred
};

// Replaces queries and keys, columns of the same rows, by their norms.
cudaError_t norm_columns(const FloatRows& rows, uint32_t num_rows, const NormedColumns& queries,
                         const NormedColumns& keys, cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_norm();

}  // namespace runnel
