#include "runner/commands/warm_up.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "runner/models/kv_groups.h"

namespace runnel {
namespace {

// Enough for products of several rows to be computed another way than those of a single one.
constexpr uint32_t kPromptRows = 24;

// Computes tokens of one sequence and draws the next.
void compute(Model& model, uint32_t first_position, uint32_t num_rows,
             const std::vector<std::vector<uint32_t>>& block_tables) {
  const std::vector<uint32_t> ids(first_position + num_rows, 0);
  Batch batch;
  batch.token_ids.assign(num_rows, 0);
  batch.positions.resize(num_rows);
  std::iota(batch.positions.begin(), batch.positions.end(), first_position);
  batch.sequences.push_back({0, num_rows, first_position, block_tables});
  model.forward(batch, [](Batch&) {});
  const SamplingParams params;
  const HeadRow row{.row = num_rows - 1, .draw = Draw{ids, static_cast<uint32_t>(ids.size()), params}};
  (void)model.logits({&row, 1}).drawn();
}

}  // namespace

Result<uint64_t> measure_unplanned(Model& model, Backend& backend, const MemoryPlan& plan,
                                   uint64_t free_before, uint32_t max_num_seqs) {
  const uint32_t num_rows = std::min(kPromptRows, plan.max_model_len - 1);
  KvShape shape = plan.shape;
  const auto num_groups = static_cast<uint32_t>(plan.windows.size());
  const uint32_t num_blocks_each = std::min(plan.num_blocks / num_groups, num_rows / shape.block_size + 1);
  shape.num_blocks = num_groups * num_blocks_each;
  if (const auto allocated = backend.allocate_kv(shape); !allocated.ok()) return allocated.error();
  const auto block_tables = consecutive_tables(num_groups, 0, num_blocks_each);
  const auto free_bytes = [&] { return backend.device().free_memory_bytes(); };
  const auto between = [](uint64_t more, uint64_t less) { return more - std::min(more, less); };
  const uint32_t num_positions = std::min(num_rows, num_blocks_each * shape.block_size - 1);
  compute(model, 0, num_positions, block_tables);
  const uint64_t free_without_graph = free_bytes();
  compute(model, num_positions, 1, block_tables);
  const uint64_t of_graph = between(free_without_graph, free_bytes());
  const uint64_t planned =
      plan.weights + plan.step.total() + shape.num_blocks * (plan.kv_cache / plan.num_blocks);
  return between(between(free_before, free_without_graph), planned) +
         of_graph * backend.num_graphs(max_num_seqs);
}

}  // namespace runnel
