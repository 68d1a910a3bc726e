// What this process computes of a model: all of it, or the share of one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/backend/decoder_spec.h"
#include "runner/ranks/rank_group.h"
#include "runner/ranks/shard_plan.h"
#include "runner/result.h"

namespace runnel {

class RankShare {
 public:
  // group: null if this process computes all.
  explicit RankShare(std::shared_ptr<RankGroup> group) : group_(std::move(group)) {}

  // Divides the model. Must be called before its weights are loaded. Without a group it only finds out
  // whether so many ranks can share the model. Fails as ShardPlan::make does.
  Result<void> plan(const DecoderSpec& spec, uint32_t num_ranks);
  // Fails with kUsage if the largest exchange of a step does not fit on a board.
  static Result<void> check_boards(const DecoderWidths& widths, const StepLimits& limits,
                                   uint32_t vocab_size);

  bool is_whole() const { return group_ == nullptr; }
  RankGroup* group() const { return group_.get(); }
  // Where this exchange takes place; null if this process computes all.
  float* board() const { return group_ == nullptr ? nullptr : group_->board(); }

  // The rows of a weight that this process loads; none: all.
  std::vector<RowRange> rows_of(WeightHandle weight) const {
    return group_ == nullptr ? std::vector<RowRange>() : plan_.rows_of(weight, group_->rank());
  }
  // The columns of a dimension of this width that this process computes.
  RowRange columns_of(RowRange Shard::*dimension, uint32_t width) const {
    return group_ == nullptr ? RowRange{0, width} : own_.*dimension;
  }
  // Those of every rank, each of which is `width` columns wide.
  std::vector<RowRange> columns_of_all(RowRange Shard::*dimension, uint32_t width) const {
    return plan_.columns_of(dimension, width);
  }
  // Attention of the heads that this process has.
  AttentionShape heads_of(const AttentionShape& shape) const {
    return group_ == nullptr ? shape : own_.own(shape);
  }

 private:
  const std::shared_ptr<RankGroup> group_;
  ShardPlan plan_;
  Shard own_{};  // set by plan(), with a group
};

}  // namespace runnel
