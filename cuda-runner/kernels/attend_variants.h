// Attention's kernels for one type of the cache. Each of these functions has an object file for each type,
// because the kernels have a variant for each size of heads and are most of the code.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/attend.h"
#include "runner/backend/host_device.h"
#include "runner/backend/kv_type.h"

namespace runnel {

// The results of each split for each query: the largest score, the sum of the weights, and the sums of the
// columns.
struct SplitResults {
  Global<float> values;  // (num_rows, num_heads, num_splits, 2 + head_dim)
  uint32_t num_heads;
  uint32_t num_splits;
  uint32_t head_dim;

  RUNNEL_HOST_DEVICE size_t first(uint32_t row, uint32_t head, uint32_t split) const {
    return ((static_cast<size_t>(row) * num_heads + head) * num_splits + split) * (2 + head_dim);
  }
};

// Computes the splits of a row one after the other (attend_rows-inl.h). Writes floats; they are not ready for
// a product.
template <KvType kType>
cudaError_t attend_rows(const AttendInputs& in, const FloatRows& out, cudaStream_t stream);
// Computes splits in parallel (attend_splits-inl.h). Does not join them.
template <KvType kType>
cudaError_t attend_splits(const AttendInputs& in, const SplitResults& results, cudaStream_t stream);

template <KvType kType>
cudaError_t load_attend_rows();
template <KvType kType>
cudaError_t load_attend_splits();

}  // namespace runnel
