// Attention over the paged KV cache. The positions of a row are cut into splits of 256, which are computed in
// parallel or one after the other. Neither this choice nor the number of rows changes a bit of the result;
// docs/numerics.md has the order of the sums.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows.h"
#include "cuda-runner/kernels/step_rows.h"
#include "runner/backend/attention_shape.h"

namespace runnel {

// Splits are computed in parallel for at most this many rows. With more, the rows alone keep the device busy.
inline constexpr uint32_t kMaxSplitRows = 64;
// Limit of the memory for the results of splits that are computed in parallel.
inline constexpr uint64_t kMaxAttendWorkspaceBytes = uint64_t{256} << 20;

// The number of floats in the workspace that attend() needs for batches of up to max_rows rows at positions
// below max_positions.
uint64_t attend_workspace_floats(const AttentionShape& shape, uint32_t max_rows, uint32_t max_positions);

struct AttendInputs {
  AttentionShape shape;
  uint32_t layer;
  uint32_t num_rows;
  StepRows rows;
  FloatRows qkv;  // a row begins with the rotated queries
  DeviceKv kv;
};

// out = softmax(scale * q . K) V, ready for a product. max_positions must be that of attend_workspace_floats.
// The launches depend only on max_positions and the shapes of the inputs, and not on the positions of the
// rows, so a captured graph of them can run for other batches.
cudaError_t attend(const AttendInputs& in, uint32_t max_positions, Global<float> workspace,
                   const ReadyRows& out, cudaStream_t stream);

// Loads the kernels of attention over a cache of this type: see load.h.
cudaError_t load_attend(KvType type);

}  // namespace runnel
