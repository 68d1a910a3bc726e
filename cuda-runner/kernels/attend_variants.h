// Attention's kernels for one type of the cache. Each has an object file for each type, because they have
// variants for each size of heads and of groups, and are most of the code.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/attend.h"
#include "runner/backend/host_device.h"
#include "runner/backend/kv_type.h"

namespace runnel {

// How the queries that share a KV head are cut into groups, which are computed together, so that keys and
// values are read once for all of a group.
struct QueryGroups {
  uint32_t num_groups;  // of a row
  uint32_t per_kv_head;
  uint32_t size;  // queries in a group, the last of a KV head excepted
  uint32_t queries_per_kv_head;

  // Each query as a group of its own.
  QueryGroups apart() const {
    return {num_groups / per_kv_head * queries_per_kv_head, queries_per_kv_head, 1, queries_per_kv_head};
  }
};

// The chunks of 32 columns that a block has warps for, of heads of this size.
constexpr uint32_t attend_chunks(uint32_t head_dim) {
  return head_dim <= 64 ? 2 : head_dim <= 128 ? 4 : 8;
}

// Threads of a multiprocessor at a time that take pieces, few enough that none spills its registers.
constexpr uint32_t resident_threads(KvType type, uint32_t num_queries, uint32_t num_warps) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
  // There the same code takes more registers, and shared memory has room for two blocks at most.
  if (num_warps == 8) return 256;
#endif
  const bool is_f32 = type == KvType::kF32;
  const uint32_t most = num_queries == 1   ? 640
                        : num_queries == 2 ? (is_f32 ? 512 : 640)
                        : num_queries == 4 ? (is_f32 ? 384 : 512)
                                           : (is_f32 ? 256 : 384);
  const bool has_fewer =
      type == KvType::kQ8_0 && num_queries > 1 && (num_warps == 2 || num_queries * num_warps >= 32);
  return most - (has_fewer ? 128 : 0);
}

// The results of splits for each query: the largest score, the sum of the weights, and the sums of the
// columns. And counters of blocks.
struct SplitResults {
  Global<float> values;  // (places, num_heads, 2 + head_dim)
  Global<uint32_t> arrivals;
  uint32_t num_heads;
  uint32_t head_dim;

  // The counters: (num_rows, num_kv_heads), of blocks that have read the row's own position; and then
  // (places, groups of queries), of splits that have been computed, at the row's first place. Launches may
  // differ in where they begin, since all are 0 between.
  RUNNEL_HOST_DEVICE static size_t newest_counter(const AttendInputs& in, uint32_t row, uint32_t kv_head) {
    return size_t{row} * in.shape.num_kv_heads + kv_head;
  }
  RUNNEL_HOST_DEVICE static size_t splits_counter(const AttendInputs& in, const QueryGroups& groups,
                                                  uint32_t place, uint32_t group) {
    return newest_counter(in, in.num_rows, 0) + size_t{place} * groups.num_groups + group;
  }

  RUNNEL_HOST_DEVICE size_t first(uint32_t place, uint32_t head) const {
    return (static_cast<size_t>(place) * num_heads + head) * (2 + head_dim);
  }
};

// Whether rows are made ready for a product as soon as they are computed. That needs heads of whole blocks of
// columns.
RUNNEL_HOST_DEVICE inline bool makes_ready(const AttentionShape& shape) {
  return shape.head_dim % kBlockColumns == 0;
}

// Computes all pieces, in num_blocks blocks (attend_rows-inl.h). Results of rows that are cut pass through
// `results`. All rows are complete in out, or only their values unless makes_ready().
template <KvType kType>
cudaError_t attend_rows(const AttendInputs& in, const QueryGroups& groups, uint32_t num_blocks,
                        const SplitResults& results, const ReadyRows& out, cudaStream_t stream);

// Computes the tiles, in the same way (attend_tiles-inl.h).
template <KvType kType>
cudaError_t attend_tiles(const AttendInputs& in, const ReadyRows& out, cudaStream_t stream);

template <KvType kType>
cudaError_t load_attend_rows(const AttentionShape& shape, const QueryGroups& groups);
template <KvType kType>
cudaError_t load_attend_tiles(const AttentionShape& shape);

}  // namespace runnel
