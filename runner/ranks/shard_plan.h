// How the ranks of a group share a model: which rows of each matrix a rank has. A rank computes whole
// outputs, and no sum is divided among ranks, so the bits are those of one rank. The outputs of all ranks are
// gathered four times a layer: after attention, and after each of the three products that follow it. Queries
// and keys are gathered too if all heads have a norm together.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/backend/decoder_spec.h"
#include "runner/result.h"

namespace runnel {

constexpr uint32_t kMaxRanks = 16;

struct RowRange {
  uint32_t first;
  uint32_t count;

  uint32_t end() const { return first + count; }
  bool operator==(const RowRange&) const = default;
};

// What one rank has.
struct Shard {
  RowRange heads;     // of queries
  RowRange kv_heads;  // those that these queries see
  RowRange hidden;    // columns of the residual stream
  RowRange gated;     // columns of a feed-forward part, or of that of each expert
  RowRange vocab;     // logits

  // The same layer's attention, of this rank's heads alone.
  AttentionShape own(AttentionShape shape) const {
    shape.num_heads = heads.count;
    shape.num_kv_heads = kv_heads.count;
    return shape;
  }
};

// What of a model is divided among ranks.
struct SharedSizes {
  uint32_t num_heads;
  uint32_t num_kv_heads;
  uint32_t hidden;
  uint32_t gated;  // width of a feed-forward part, or of that of each expert
  uint32_t vocab;
  bool has_experts;

  bool operator==(const SharedSizes&) const = default;
};

SharedSizes shared_sizes_of(const DecoderSpec& spec);
// Fails with kUsage if so many ranks cannot share a model of these sizes.
Result<void> check_shared(const SharedSizes& sizes, uint32_t num_ranks);

class ShardPlan {
 public:
  // One rank, which has everything.
  ShardPlan() = default;
  // Ranks have whole KV heads, with the queries that see them. Above the number of KV heads, each is given to
  // as many ranks, which share its queries. Shares may differ by one unit. Fails as check_shared does. The
  // spec's weights need not be loaded: only their handles are looked at.
  static Result<ShardPlan> make(const DecoderSpec& spec, uint32_t num_ranks);

  uint32_t num_ranks() const { return static_cast<uint32_t>(shards_.size()); }
  const Shard& operator[](uint32_t rank) const { return shards_[rank]; }
  // The columns that each rank has of a dimension, such as &Shard::hidden, in columns of `width`.
  std::vector<RowRange> columns_of(RowRange Shard::*dimension, uint32_t width = 1) const;
  // The rows of a matrix, or values of a vector, that a rank loads, in this order; none: all of them.
  std::vector<RowRange> rows_of(WeightHandle weight, uint32_t rank) const;

 private:
  // How a weight is cut. Its rows are sections of equal length, of each of which a rank has its share.
  struct Cut {
    RowRange Shard::*dimension = nullptr;  // null: every rank has the whole weight
    uint32_t section_rows = 0;
    uint32_t num_sections = 1;
    bool is_qkv = false;  // queries, keys and values of all heads
  };
  void cut(WeightHandle weight, const Cut& cut);

  std::vector<Shard> shards_ = {};
  std::vector<Cut> cuts_;  // by handle
  uint32_t num_heads_ = 0;
  uint32_t num_kv_heads_ = 0;
  uint32_t head_dim_ = 0;
};

}  // namespace runnel
