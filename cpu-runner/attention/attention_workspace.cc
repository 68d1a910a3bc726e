#include "cpu-runner/attention/attention_workspace.h"

#include <utility>

#include "cpu-runner/kernels/kv.h"
#include "runner/check.h"

namespace runnel {
namespace {

// Floats from one query's partial sums to the next.
size_t stride_of(uint32_t head_dim) {
  constexpr size_t kLineFloats = 16;
  return (head_dim + kPartialExtra + kLineFloats - 1) / kLineFloats * kLineFloats;
}

uint64_t max_partials_of(const KvShape& shape, uint32_t num_threads, uint32_t max_rows) {
  return AttentionPlan::max_partials(num_threads, shape.num_heads, shape.num_kv_heads, max_rows,
                                     shape.max_positions);
}

}  // namespace

uint64_t AttentionWorkspace::bytes(const KvShape& shape, uint32_t num_threads, uint32_t max_rows) {
  return max_partials_of(shape, num_threads, max_rows) * stride_of(shape.head_dim) * sizeof(float) +
         uint64_t{max_rows} * (1 + shape.num_kv_heads) * sizeof(Countdown);
}

Result<AttentionWorkspace> AttentionWorkspace::allocate(const KvShape& shape, uint32_t num_threads,
                                                        uint32_t max_rows) {
  CHECK(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0 && shape.num_heads > 0);
  AttentionWorkspace workspace;
  workspace.num_threads_ = num_threads;
  workspace.num_kv_heads_ = shape.num_kv_heads;
  workspace.stride_ = stride_of(shape.head_dim);
  workspace.max_partials_ = max_partials_of(shape, num_threads, max_rows);
  if (workspace.max_partials_ > 0) {
    Result<Memory> memory = Memory::allocate(workspace.max_partials_ * workspace.stride_ * sizeof(float),
                                             "the partial sums of attention");
    if (!memory) return memory.error();
    workspace.partials_ = *std::move(memory);
  }
  workspace.max_rows_ = max_rows;
  workspace.groups_ = std::make_unique<Countdown[]>(max_rows);
  workspace.heads_ = std::make_unique<Countdown[]>(size_t{max_rows} * shape.num_kv_heads);
  return workspace;
}

const AttentionPlan& AttentionWorkspace::prepare(const Batch& batch, const AttentionShape& shape) {
  CHECK(shape.num_kv_heads == num_kv_heads_);
  if (!plan_.prepare(batch, shape, num_threads_)) return plan_;
  CHECK(plan_.groups().size() <= max_rows_ && plan_.num_partials() <= max_partials_);
  for (uint32_t group = 0; group < plan_.groups().size(); ++group) {
    groups_[group].start_at(num_kv_heads_);
    for (uint32_t kv_head = 0; kv_head < num_kv_heads_; ++kv_head)
      heads_[size_t{group} * num_kv_heads_ + kv_head].start_at(plan_.groups()[group].chunks_per_head());
  }
  return plan_;
}

bool AttentionWorkspace::is_last_of_head(uint32_t group, uint32_t kv_head) {
  return heads_[size_t{group} * num_kv_heads_ + kv_head].is_last();
}

bool AttentionWorkspace::is_last_of_group(uint32_t group) {
  return groups_[group].is_last();
}

void AttentionWorkspace::Countdown::start_at(uint32_t count) {
  start = count;
  left.store(count, std::memory_order_relaxed);
}

bool AttentionWorkspace::Countdown::is_last() {
  // After the last countdown this thread can read what the others wrote before theirs.
  if (left.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  left.store(start, std::memory_order_relaxed);
  return true;
}

}  // namespace runnel
