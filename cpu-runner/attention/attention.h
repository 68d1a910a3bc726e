// Attention over the paged KV cache: rotate and store, then attend. Each is cut into chunks for the threads.
// The plan decides which rows read K and V together, which does not change what a row computes.
#pragma once

#include <cstdint>

#include "cpu-runner/attention/attention_workspace.h"
#include "cpu-runner/attention/kv_cache.h"
#include "cpu-runner/attention/rope_angles.h"
#include "cpu-runner/matrix/activation.h"
#include "cpu-runner/matrix/product.h"
#include "runner/backend/backend.h"

namespace runnel {

// The norm of each head: (head_dim) gains. Without gains there is no norm.
struct HeadNorm {
  std::span<const float> gain;
  float epsilon = 0.0f;
};

// What is done to heads before they are stored or used. angles must be prepared for the batch.
struct HeadRotation {
  Rope rope;
  const RopeAngles& angles;
  HeadNorm query_norm = {};
  HeadNorm key_norm = {};
};

// Applies norms and rotation to the queries and keys of the batch in qkv, and stores the keys and values.
void rope_and_store(const Executor& executor, const Batch& batch, const KvPlace& place,
                    const AttentionShape& shape, const HeadRotation& rotation, const KvCache& cache,
                    Activation& qkv);

// out = attention of the queries of the batch over the cache, made ready for a product. sinks: of the heads
// of queries, (num_heads), or none: see LayerSpec.
void attend_rows(const Executor& executor, const Batch& batch, const KvPlace& place,
                 const AttentionShape& shape, std::span<const float> sinks, const KvCache& cache,
                 AttentionWorkspace& workspace, const Activation& qkv, Activation& out);

}  // namespace runnel
