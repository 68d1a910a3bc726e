// The queries of a piece, and the key and value of its row's own position where attention rotates and stores
// (AttendInputs::rotates).
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/head_columns-inl.h"

namespace runnel {

template <uint32_t kQueries, uint32_t kDim>
struct RowHeadsMemory {
  Shared<float, kQueries * kDim> queries;
  // The key and then the value of the newest position, as they are read from the cache and as they are
  // stored.
  Shared<float, 2 * kDim> newest;
  Shared<CacheValue, 2 * kDim> newest_stored;
};

// Memory: a RowHeadsMemory of at least kQueries.
template <KvType kType, uint32_t kQueries, uint32_t kWarps, typename Memory>
struct RowHeads {
  static constexpr uint32_t kThreads = kWarps * kWarpSize;
  static constexpr uint32_t kDim = kWarps * kWarpSize;  // columns of a head, rounded up

  // has_newest: the piece has the row's own position.
  __device__ static void load(const AttendInputs& in, uint32_t row, const QueryGroup& group, bool has_newest,
                              Memory& memory) {
    if (in.rotates) {
      rotate(in, row, group, has_newest, memory);
    } else {
      load_queries(in, row, group, memory);
    }
  }

  // Stores the key and the value of the row's own position, when nobody reads the cache any more.
  __device__ static void store_newest(const AttendInputs& in, const AttendPiece& piece, uint32_t kv_head,
                                      Memory& memory) {
    const uint32_t block = in.rows.block_tables.template load_read_only<uint32_t>(
        size_t{piece.sequence} * in.rows.table_stride + (piece.position >> in.kv.block_shift));
    const CachePlace place{in.kv.keys_of(in.layer, block, kv_head), in.kv.position_in_block(piece.position)};
    for (uint32_t i = recomputed(threadIdx.x); i < 2 * kDim; i += kThreads)
      place.store(in.kv, kType, i < kDim, i % kDim, memory.newest[i], memory.newest_stored[i]);
  }

 private:
  // Columns beyond the head are zeros; queries that the group lacks are copies of its last one.
  __device__ static void load_queries(const AttendInputs& in, uint32_t row, const QueryGroup& group,
                                      Memory& memory) {
    for (uint32_t i = threadIdx.x; i < kQueries * kDim; i += kThreads) {
      const uint32_t head = group.first_head + std::min(i / kDim, group.num_heads - 1);
      const uint32_t column = i % kDim;
      const size_t index = static_cast<size_t>(row) * in.qkv.stride + head * in.shape.head_dim + column;
      memory.queries[i] = column < in.shape.head_dim ? in.qkv.values[index] : 0.0f;
    }
  }

  // The same, rotated; and if the piece has it, the key and the value of the row's own position. A warp takes
  // a head.
  __device__ static void rotate(const AttendInputs& in, uint32_t row, const QueryGroup& group,
                                bool has_newest, Memory& memory) {
    const AttentionShape& shape = in.shape;
    const HeadNorms& norms = in.rotation.norms;
#pragma unroll 1
    for (uint32_t i = recomputed(warp()); i < kQueries + (has_newest ? 2 : 0); i += kWarps) {
      const bool is_query = i < kQueries;
      const bool is_value = i == kQueries + 1;
      const uint32_t index = is_query   ? group.first_head + std::min(i, group.num_heads - 1)
                             : is_value ? shape.num_heads + shape.num_kv_heads + group.kv_head
                                        : shape.num_heads + group.kv_head;
      HeadColumns<kDim / kWarpSize> head;
      head.load(in.qkv, row, index * shape.head_dim, shape.head_dim, in.rotation, !is_value,
                {!is_value && (is_query ? norms.of_queries.is_there : norms.of_keys.is_there),
                 is_query ? norms.of_queries.gain : norms.of_keys.gain,
                 is_query ? norms.of_queries.epsilon : norms.of_keys.epsilon});
#pragma unroll
      for (uint32_t chunk = 0; chunk < kDim / kWarpSize; ++chunk) {
        const uint32_t column = head.column_of(chunk);
        const float x = head.turned[chunk];
        if (is_query) {
          memory.queries[i * kDim + column] = x;
        } else {
          const CacheValue value = rounded(kType, x);
          memory.newest[(i - kQueries) * kDim + column] = as_read(kType, x, value);
          memory.newest_stored[(i - kQueries) * kDim + column] = value;
        }
      }
    }
  }
};

}  // namespace runnel
