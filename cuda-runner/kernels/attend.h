// Attention over the paged KV cache. The positions of a row are cut into splits of 256, which are computed in
// parallel or one after the other. Neither this choice nor the number of rows changes a bit of the result;
// docs/numerics.md has the order of the sums.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/attend_work.h"
#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows.h"
#include "cuda-runner/kernels/rotation.h"
#include "cuda-runner/kernels/step_rows.h"
#include "runner/backend/attention_shape.h"
#include "runner/backend/kv_type.h"

namespace runnel {

// Limit of the memory for the results of splits that are computed in parallel. It holds the splits of 4
// million positions of a model with 32 heads of 128 values: more than a device has memory for, unless
// sequences share blocks.
inline constexpr uint64_t kMaxAttendWorkspaceBytes = uint64_t{256} << 20;

// The largest steps.
struct AttendLimits {
  uint32_t max_rows;
  uint32_t max_positions;    // of a sequence
  uint64_t cache_positions;  // of the whole cache
};

// The number of groups of queries of a row that are computed together. Those of a group share a KV head.
uint32_t attend_groups(const AttentionShape& shape);
// Whether attention can rotate and store: each KV head must have one group of queries.
bool attend_rotates(const AttentionShape& shape);
// The blocks that take pieces: as many as this device holds at a time, so that none begins when others end.
uint32_t attend_blocks(KvType type, const AttentionShape& shape);
// The number of rows of a tile. Less than 2: no rows are computed in tiles.
uint32_t attend_tile_rows(const AttentionShape& shape);

// The number of splits of rows that are cut, which the workspace has places for. Rows whose sequences share
// no blocks fit, up to kMaxAttendWorkspaceBytes.
uint32_t max_cut_splits(const AttentionShape& shape, const AttendLimits& limits);
// The sizes of the workspace.
uint64_t attend_result_floats(const AttentionShape& shape, const AttendLimits& limits);
uint64_t attend_arrivals(const AttentionShape& shape, const AttendLimits& limits);

// The results of splits of rows that are cut; and counters, which are 0 between launches: how many splits of
// a row have been computed, and how many blocks have read its own position.
struct AttendWorkspace {
  Global<float> results;
  Global<uint32_t> arrivals;
};

struct AttendInputs {
  AttentionShape shape;
  uint32_t layer;
  uint32_t num_rows;  // pieces and tiles of later rows are left out
  StepRows rows;
  AttendWork work;
  FloatRows qkv;  // a row begins with the rotated queries
  DeviceKv kv;
  // Attention does what rope_store does, too: qkv has the queries, the keys and the values as the product
  // gave them. Only if attend_rotates(), if each row with a piece is the only one of its sequence, and
  // without tiles.
  bool rotates = false;
  Rotation rotation = {};
  // A logit of each head beside the scores, without a value: (num_heads).
  bool has_sinks = false;
  Global<const float> sinks = {};
  float cap_factor = 0.0f;  // set by attend(): 2 / shape.softcap, for which kernels lack registers
};

// out = softmax(scale * q . K) V, with the scores capped if the shape says so, ready for a product. No row
// sees more than max_positions positions. The launches depend only on this, on the shapes of the inputs and
// on whether there are tiles, and not on the positions of the rows, so a captured graph of them can run for
// other batches.
cudaError_t attend(const AttendInputs& inputs, uint32_t max_positions, const AttendWorkspace& workspace,
                   const ReadyRows& out, cudaStream_t stream);

// Loads the kernels of attention of this shape over a cache of this type: see load.h.
cudaError_t load_attend(KvType type, const AttentionShape& shape);

}  // namespace runnel
