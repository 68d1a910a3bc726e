// Attention's kernels for one way to store the cache. Each has an object of its own: there is a variant for
// every size of heads, and together they are most of all the code.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/attend.h"
#include "runner/host_device.h"
#include "runner/kv_type.h"

namespace runnel {

// What a split found for a query: its largest score, the sum of its weights, its sums of columns.
struct SplitResults {
  Global<float> values;  // (num_rows, num_heads, num_splits, 2 + head_dim)
  uint32_t num_heads;
  uint32_t num_splits;
  uint32_t head_dim;

  RUNNEL_HOST_DEVICE size_t first(uint32_t row, uint32_t head, uint32_t split) const {
    return ((static_cast<size_t>(row) * num_heads + head) * num_splits + split) * (2 + head_dim);
  }
};

// Rows one after the other: floats, not ready for a product.
template <KvType kType>
cudaError_t attend_rows(const AttendInputs& in, const FloatRows& out, cudaStream_t stream);
// Splits side by side, not put together.
template <KvType kType>
cudaError_t attend_splits(const AttendInputs& in, const SplitResults& results, cudaStream_t stream);

template <KvType kType>
cudaError_t load_attend_rows();
template <KvType kType>
cudaError_t load_attend_splits();

}  // namespace runnel
