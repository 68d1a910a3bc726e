// Attention over the paged cache. How many rows a batch has, and whether the splits of a row are computed
// side by side or one after the other, changes no bit: docs/numerics.md has the order of the sums.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows.h"
#include "cuda-runner/kernels/step_rows.h"
#include "runner/attention_shape.h"

namespace runnel {

// With so many rows, the rows alone keep the device busy.
inline constexpr uint32_t kMaxSplitRows = 64;
// Splits side by side need memory for what each of them found.
inline constexpr uint64_t kMaxAttendWorkspaceBytes = uint64_t{256} << 20;

// Floats of the workspace that attend() needs for batches of up to max_rows rows at positions below
// max_positions.
uint64_t attend_workspace_floats(const AttentionShape& shape, uint32_t max_rows, uint32_t max_positions);

struct AttendInputs {
  AttentionShape shape;
  uint32_t layer;
  uint32_t num_rows;
  StepRows rows;
  FloatRows qkv;  // queries first, turned
  DeviceKv kv;
};

// out = softmax(scale * q . K) V, ready for a product. Launches depend on the inputs' shapes and
// max_positions, not on where the rows are, so that they may be captured and run again. max_positions is that
// of attend_workspace_floats.
cudaError_t attend(const AttendInputs& in, uint32_t max_positions, Global<float> workspace,
                   const ReadyRows& out, cudaStream_t stream);

// Loads the kernels, all of them: see load.h.
cudaError_t load_attend();

}  // namespace runnel
