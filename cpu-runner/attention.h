// Attention over the paged cache: rotate and store, then attend, each cut into chunks for the threads. Chunks
// may differ in which rows share a reading of K and V; what a row computes does not.
#pragma once

#include <cstdint>

#include "cpu-runner/activation.h"
#include "cpu-runner/attention_workspace.h"
#include "cpu-runner/kv_cache.h"
#include "cpu-runner/product.h"
#include "cpu-runner/rope_angles.h"
#include "runner/backend.h"

namespace runnel {

// A norm of each head, (head_dim) gains; none: there is no norm.
struct HeadNorm {
  std::span<const float> gain;
  float epsilon = 0.0f;
};

// What is done to heads before they are stored or used. angles were prepared for the batch.
struct HeadRotation {
  Rope rope;
  const RopeAngles& angles;
  HeadNorm query_norm = {};
  HeadNorm key_norm = {};
};

// Norms and rotates queries and keys of the batch in qkv and stores keys and values.
void rope_and_store(const Executor& executor, const Batch& batch, uint32_t layer, const AttentionShape& shape,
                    const HeadRotation& rotation, const KvCache& cache, Activation& qkv);

// out = attention of the batch's queries over what the cache holds, made ready for a product.
void attend_rows(const Executor& executor, const Batch& batch, uint32_t layer, const AttentionShape& shape,
                 const KvCache& cache, AttentionWorkspace& workspace, const Activation& qkv, Activation& out);

}  // namespace runnel
