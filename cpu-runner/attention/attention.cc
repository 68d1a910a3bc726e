#include "cpu-runner/attention/attention.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "runner/check.h"

namespace runnel {
namespace {

void check_shape(const AttentionShape& shape, const Activation& qkv) {
  CHECK(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0);
  CHECK(qkv.width() == (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim);
}

// Rows of one sequence that lie in one tile, and KV heads with their queries. No two chunks write to the same
// cache lines of a tile.
struct StoreChunk {
  const BatchSequence* sequence;
  uint32_t first_row;
  uint32_t num_rows;
  uint32_t first_head;
  uint32_t num_heads;
};

std::vector<StoreChunk> store_chunks(const Batch& batch, uint32_t num_kv_heads) {
  // With fewer rows than this the heads are not worth a chunk each.
  constexpr uint32_t kMinRowsToCutHeads = 4;
  std::vector<StoreChunk> chunks;
  for (const BatchSequence& sequence : batch.sequences) {
    for (uint32_t row = 0; row < sequence.num_rows;) {
      const uint32_t left_of_tile = kTilePositions - (sequence.first_position + row) % kTilePositions;
      const uint32_t num_rows = std::min(left_of_tile, sequence.num_rows - row);
      const uint32_t num_heads = num_rows < kMinRowsToCutHeads ? num_kv_heads : 1;
      for (uint32_t head = 0; head < num_kv_heads; head += num_heads)
        chunks.push_back({&sequence, sequence.first_row + row, num_rows, head, num_heads});
      row += num_rows;
    }
  }
  return chunks;
}

// Applies norms and rotation to the rows of a chunk and stores them.
struct Store {
  const Kernels& kernels;
  const KvPlace& place;
  const AttentionShape& shape;
  const HeadRotation& rotation;
  const KvCache& cache;
  Activation& qkv;

  void turn(uint32_t row, const HeadNorm& norm, float* head) const {
    if (!norm.gain.empty()) kernels.norm(head, norm.gain.data(), shape.head_dim, norm.epsilon, head);
    kernels.rotate(head, rotation.angles.row(row), rotation.rope.rotary_dim, rotation.rope.interleaved);
  }

  void store(const StoreChunk& chunk) const {
    const uint32_t queries_per_kv = shape.num_heads / shape.num_kv_heads;
    const std::span<const uint32_t> block_table = chunk.sequence->block_tables[place.group];
    for (uint32_t row = chunk.first_row; row < chunk.first_row + chunk.num_rows; ++row) {
      const uint32_t position = chunk.sequence->first_position + (row - chunk.sequence->first_row);
      float* queries = qkv.row(row);
      float* keys = queries + shape.num_heads * shape.head_dim;
      const float* values = keys + shape.num_kv_heads * shape.head_dim;
      for (uint32_t head = chunk.first_head; head < chunk.first_head + chunk.num_heads; ++head) {
        for (uint32_t i = 0; i < queries_per_kv; ++i)
          turn(row, rotation.query_norm, queries + (head * queries_per_kv + i) * shape.head_dim);
        turn(row, rotation.key_norm, keys + head * shape.head_dim);
        const KvCache::Slot slot = cache.slot(place.layer, head, block_table, position);
        kernels.store_key(cache.layout(), keys + head * shape.head_dim, slot.position, slot.key_tile);
        kernels.store_value(cache.layout(), values + head * shape.head_dim, slot.position, slot.value_tile);
      }
    }
  }
};

// The attention of one batch in one layer.
struct Attend {
  const Executor& executor;
  const Batch& batch;
  const KvPlace& place;
  const AttentionShape& shape;
  const std::span<const float> sinks;
  const KvCache& cache;
  const Activation& qkv;
  const AttentionPlan& plan;
  AttentionWorkspace& workspace;
  Activation& out;

  uint32_t queries_per_kv() const { return shape.num_heads / shape.num_kv_heads; }
  Scoring scoring() const { return {shape.scale, shape.softcap}; }

  const float* sink(uint32_t kv_head, uint32_t query) const {
    return sinks.empty() ? nullptr : &sinks[kv_head * queries_per_kv() + query];
  }

  // Offset of a query in a row of queries, and of its result in a row of out.
  size_t offset(uint32_t kv_head, uint32_t query) const {
    return (size_t{kv_head} * queries_per_kv() + query) * shape.head_dim;
  }

  // The splits that row i of a group sees.
  struct Splits {
    uint32_t first;
    uint32_t last;
  };
  Splits splits_of(const AttentionPlan::Group& group, uint32_t i) const {
    const SeenPositions seen = group.seen(i, shape);
    return {seen.first / kSplitPositions, seen.last / kSplitPositions};
  }

  // The partial sums of a query of row i of a group at a split.
  float* partial(const AttentionPlan::Group& group, uint32_t i, uint32_t kv_head, uint32_t query,
                 uint32_t split) const {
    const uint32_t index = i * shape.num_heads + kv_head * queries_per_kv() + query;
    return workspace.partial(group.first_partial + index * group.num_splits + split - group.first_split);
  }

  // Calls attend(queries) for the queries of the rows i of a group for which sees(i), with as many queries in
  // a call as a kernel takes. to(i, query) is the destination of a query's result.
  template <typename Sees, typename To, typename Fn>
  void for_queries(const AttentionPlan::Group& group, uint32_t kv_head, const Sees& sees, const To& to,
                   const Fn& attend) const {
    std::array<AttendQuery, kMaxQueries> queries;
    uint32_t num_queries = 0;
    for (uint32_t i = 0; i < group.num_rows; ++i) {
      if (!sees(i)) continue;
      const SeenPositions seen = group.seen(i, shape);
      for (uint32_t query = 0; query < queries_per_kv(); ++query) {
        queries[num_queries++] = {qkv.row(group.first_row + i) + offset(kv_head, query), to(i, query),
                                  seen.first, seen.last + 1, sink(kv_head, query)};
        if (num_queries == kMaxQueries) {
          attend(std::span(queries.data(), num_queries));
          num_queries = 0;
        }
      }
    }
    if (num_queries > 0) attend(std::span(queries.data(), num_queries));
  }

  void attend_whole(const AttentionPlan::Group& group, uint32_t kv_head, const KvView& view) const {
    const auto all = [](uint32_t) { return true; };
    const auto to = [&](uint32_t i, uint32_t query) {
      return out.row(group.first_row + i) + offset(kv_head, query);
    };
    for_queries(group, kv_head, all, to, [&](std::span<const AttendQuery> queries) {
      executor.kernels.attend(view, queries.data(), static_cast<uint32_t>(queries.size()), scoring());
    });
  }

  void attend_split(const AttentionPlan::Group& group, uint32_t kv_head, const KvView& view,
                    uint32_t split) const {
    const auto sees = [&](uint32_t i) {
      const Splits splits = splits_of(group, i);
      return splits.first <= split && split <= splits.last;
    };
    const auto to = [&](uint32_t i, uint32_t query) { return partial(group, i, kv_head, query, split); };
    for_queries(group, kv_head, sees, to, [&](std::span<const AttendQuery> queries) {
      executor.kernels.attend_split(view, queries.data(), static_cast<uint32_t>(queries.size()), scoring(),
                                    split);
    });
  }

  void merge(const AttentionPlan::Group& group, uint32_t kv_head) const {
    for (uint32_t i = 0; i < group.num_rows; ++i) {
      const Splits splits = splits_of(group, i);
      for (uint32_t query = 0; query < queries_per_kv(); ++query) {
        executor.kernels.merge_splits(partial(group, i, kv_head, query, splits.first), workspace.stride(),
                                      splits.last - splits.first + 1, shape.head_dim, sink(kv_head, query),
                                      out.row(group.first_row + i) + offset(kv_head, query));
      }
    }
  }

  void compute(const AttentionPlan::Chunk& chunk) const {
    const AttentionPlan::Group& group = plan.groups()[chunk.group];
    const KvView view =
        cache.view(place.layer, chunk.kv_head, batch.sequences[group.sequence].block_tables[place.group]);
    if (group.is_cut()) {
      for (uint32_t i = 0; i < chunk.num_splits; ++i)
        attend_split(group, chunk.kv_head, view, chunk.first_split + i);
      if (!workspace.is_last_of_head(chunk.group, chunk.kv_head)) return;
      merge(group, chunk.kv_head);
    } else {
      attend_whole(group, chunk.kv_head, view);
    }
    // A block of 32 values may hold values of two heads, so rows are made ready when all heads of the group
    // are done.
    if (!workspace.is_last_of_group(chunk.group)) return;
    for (uint32_t i = 0; i < group.num_rows; ++i) make_ready(executor, out, group.first_row + i);
  }
};

}  // namespace

void rope_and_store(const Executor& executor, const Batch& batch, const KvPlace& place,
                    const AttentionShape& shape, const HeadRotation& rotation, const KvCache& cache,
                    Activation& qkv) {
  check_shape(shape, qkv);
  CHECK(rotation.rope.rotary_dim <= shape.head_dim && rotation.rope.rotary_dim % 2 == 0);
  for (const HeadNorm& norm : {rotation.query_norm, rotation.key_norm})
    CHECK(norm.gain.empty() || norm.gain.size() == shape.head_dim);
  const Store store{executor.kernels, place, shape, rotation, cache, qkv};
  const std::vector<StoreChunk> chunks = store_chunks(batch, shape.num_kv_heads);
  executor.threads.parallel_for(static_cast<uint32_t>(chunks.size()),
                                [&](uint32_t chunk) { store.store(chunks[chunk]); });
}

void attend_rows(const Executor& executor, const Batch& batch, const KvPlace& place,
                 const AttentionShape& shape, std::span<const float> sinks, const KvCache& cache,
                 AttentionWorkspace& workspace, const Activation& qkv, Activation& out) {
  check_shape(shape, qkv);
  CHECK(sinks.empty() || sinks.size() == shape.num_heads);
  CHECK(out.width() == shape.num_heads * shape.head_dim && batch.num_rows() <= out.max_rows());
  const AttentionPlan& plan = workspace.prepare(batch, shape);
  const Attend attend{executor, batch, place, shape, sinks, cache, qkv, plan, workspace, out};
  executor.threads.parallel_for(static_cast<uint32_t>(plan.chunks().size()),
                                [&](uint32_t chunk) { attend.compute(plan.chunks()[chunk]); });
}

}  // namespace runnel
