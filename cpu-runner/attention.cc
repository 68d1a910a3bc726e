#include "cpu-runner/attention.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runner/check.h"

namespace runnel {
namespace {

// Consecutive rows of one sequence.
struct RowGroup {
  const BatchSequence* sequence;
  uint32_t first_row;
  uint32_t num_rows;

  uint32_t position(uint32_t row) const { return sequence->first_position + (row - sequence->first_row); }
};

std::vector<RowGroup> group_rows(const Batch& batch, uint32_t max_rows) {
  std::vector<RowGroup> groups;
  for (const BatchSequence& sequence : batch.sequences) {
    for (uint32_t first = 0; first < sequence.num_rows; first += max_rows) {
      groups.push_back(
          {&sequence, sequence.first_row + first, std::min(max_rows, sequence.num_rows - first)});
    }
  }
  return groups;
}

// The first position that the row at this one sees.
uint32_t first_seen(uint32_t position, uint32_t window) {
  return window == 0 || position < window ? 0 : position - window + 1;
}

void check_shape(const AttentionShape& shape, const Activation& qkv) {
  CHECK(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0);
  CHECK(qkv.width() == (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim);
}

}  // namespace

void rope_and_store(const Executor& executor, const Batch& batch, uint32_t layer, const AttentionShape& shape,
                    const Rope& rope, const RopeAngles& angles, const KvCache& cache, Activation& qkv) {
  constexpr uint32_t kRowsPerChunk = 4;
  check_shape(shape, qkv);
  CHECK(rope.rotary_dim <= shape.head_dim && rope.rotary_dim % 2 == 0);
  const std::vector<RowGroup> groups = group_rows(batch, kRowsPerChunk);
  executor.threads.parallel_for(static_cast<uint32_t>(groups.size()), [&](uint32_t chunk) {
    const RowGroup& group = groups[chunk];
    for (uint32_t row = group.first_row; row < group.first_row + group.num_rows; ++row) {
      float* values = qkv.row(row);
      // Queries first, then keys: they turn alike.
      for (uint32_t head = 0; head < shape.num_heads + shape.num_kv_heads; ++head) {
        executor.kernels.rotate(values + head * shape.head_dim, angles.row(row), rope.rotary_dim,
                                rope.interleaved);
      }
      const float* keys = values + shape.num_heads * shape.head_dim;
      for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
        const KvCache::Slot slot = cache.slot(layer, head, group.sequence->block_table, group.position(row));
        const float* key = keys + head * shape.head_dim;
        const float* value = key + shape.num_kv_heads * shape.head_dim;
        executor.kernels.store_kv(cache.type(), key, shape.head_dim, slot.key);
        executor.kernels.store_kv(cache.type(), value, shape.head_dim, slot.value);
      }
    }
  });
}

void attend_rows(const Executor& executor, const Batch& batch, uint32_t layer, const AttentionShape& shape,
                 const KvCache& cache, const Activation& qkv, Activation& out) {
  // More rows share a widened tile, fewer keep the threads even.
  constexpr uint32_t kMaxRowsPerChunk = 8;
  check_shape(shape, qkv);
  CHECK(out.width() == shape.num_heads * shape.head_dim && batch.num_rows() <= out.max_rows());
  const uint32_t queries_per_kv = shape.num_heads / shape.num_kv_heads;
  const uint32_t rows_per_chunk = std::clamp(kMaxQueries / queries_per_kv, 1u, kMaxRowsPerChunk);
  const std::vector<RowGroup> groups = group_rows(batch, rows_per_chunk);
  const auto num_groups = static_cast<uint32_t>(groups.size());

  executor.threads.parallel_for(num_groups * shape.num_kv_heads, [&](uint32_t chunk) {
    // Later rows see more positions: they go first, so that the threads end together.
    const RowGroup& group = groups[num_groups - 1 - chunk / shape.num_kv_heads];
    const uint32_t kv_head = chunk % shape.num_kv_heads;
    const KvView view = cache.view(layer, kv_head, group.sequence->block_table);
    std::array<AttendQuery, kMaxQueries> queries;
    uint32_t num_queries = 0;
    for (uint32_t row = group.first_row; row < group.first_row + group.num_rows; ++row) {
      for (uint32_t i = 0; i < queries_per_kv; ++i) {
        const size_t offset = size_t{kv_head * queries_per_kv + i} * shape.head_dim;
        const uint32_t position = group.position(row);
        queries[num_queries++] = {qkv.row(row) + offset, out.row(row) + offset,
                                  first_seen(position, shape.window), position + 1};
        if (num_queries == kMaxQueries) {
          executor.kernels.attend(view, queries.data(), num_queries, shape.scale);
          num_queries = 0;
        }
      }
    }
    if (num_queries > 0) executor.kernels.attend(view, queries.data(), num_queries, shape.scale);
  });

  // A block of 32 may hold values of two heads, so it waits for both.
  constexpr uint32_t kRowsPerChunk = 8;
  executor.threads.parallel_for((batch.num_rows() + kRowsPerChunk - 1) / kRowsPerChunk, [&](uint32_t chunk) {
    const uint32_t end = std::min((chunk + 1) * kRowsPerChunk, batch.num_rows());
    for (uint32_t row = chunk * kRowsPerChunk; row < end; ++row) {
      make_ready(executor, out, row);
    }
  });
}

}  // namespace runnel
