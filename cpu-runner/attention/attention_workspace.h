// What attention needs besides the cache: the plan of the current batch, the partial sums of splits that are
// computed apart, and the countdowns of unfinished chunks. Allocated once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cpu-runner/attention/attention_plan.h"
#include "runner/backend/backend.h"
#include "runner/result.h"
#include "runner/system/memory.h"

namespace runnel {

class AttentionWorkspace {
 public:
  // Bytes that allocate() with the same arguments takes.
  static uint64_t bytes(const KvShape& shape, uint32_t num_threads, uint32_t max_rows);
  // For batches of at most max_rows rows over a cache of this shape. Fails with kSystem.
  static Result<AttentionWorkspace> allocate(const KvShape& shape, uint32_t num_threads, uint32_t max_rows);

  AttentionWorkspace() = default;

  // Plans the batch. Must be called before its chunks are computed.
  const AttentionPlan& prepare(const Batch& batch, const AttentionShape& shape);

  // The partial sums of one query at one split. Those of the next index begin stride() floats later.
  float* partial(uint32_t index) const {
    return reinterpret_cast<float*>(partials_.data()) + index * stride_;
  }
  size_t stride() const { return stride_; }

  // Returns true for the last chunk of a KV head of a group, or for the last KV head of a group. The caller
  // can then read what the other threads have written, and the countdown starts again.
  bool is_last_of_head(uint32_t group, uint32_t kv_head);
  bool is_last_of_group(uint32_t group);

 private:
  struct Countdown {
    std::atomic<uint32_t> left{0};
    uint32_t start = 0;

    void start_at(uint32_t count);
    bool is_last();
  };

  uint32_t num_threads_ = 1;
  uint32_t num_kv_heads_ = 0;
  AttentionPlan plan_;
  size_t stride_ = 0;
  uint64_t max_partials_ = 0;
  Memory partials_;
  uint32_t max_rows_ = 0;                // at most one group a row
  std::unique_ptr<Countdown[]> groups_;  // (max_rows)
  std::unique_ptr<Countdown[]> heads_;   // (max_rows, num_kv_heads)
};

}  // namespace runnel
