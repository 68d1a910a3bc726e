#include "cpu-runner/rank_share.h"

#include <algorithm>
#include <string>

namespace runnel {

Result<void> RankShare::plan(const DecoderSpec& spec, uint32_t num_ranks) {
  if (num_ranks == 1) return {};
  Result<ShardPlan> plan = ShardPlan::make(spec, num_ranks);
  if (!plan) return plan.error();
  plan_ = *std::move(plan);
  if (group_ != nullptr) own_ = plan_[group_->rank()];
  return {};
}

Result<void> RankShare::check_boards(const DecoderWidths& widths, const StepLimits& limits,
                                     uint32_t vocab_size) {
  const uint64_t num_uses = std::max(1u, widths.experts.num_used);
  const uint64_t floats =
      std::max({uint64_t{limits.max_rows} * widths.hidden, uint64_t{limits.max_rows} * widths.qkv,
                limits.max_rows * num_uses * widths.gated, uint64_t{limits.max_head_rows} * vocab_size});
  if (floats <= RankGroup::kMaxBoardFloats) return {};
  return Error{ExitCode::kUsage,
               "--max-num-batched-tokens is " + std::to_string(limits.max_rows) +
                   ", and ranks exchange at most " + std::to_string(RankGroup::kMaxBoardFloats) +
                   " numbers at once; a step of this model has " + std::to_string(floats) + "."};
}

}  // namespace runnel
