// Rows of logits and what is drawn from them, computed by all threads. Many rows are drawn side by side, a
// row by a thread; few rows are drawn one after the other, the ranges of a row shared among the threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpu-runner/kernels/draw_kernels.h"
#include "cpu-runner/sampling/row_drawer.h"
#include "cpu-runner/thread_pool.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

class DrawnRows final : public LogitRows {
 public:
  // kernels and threads must outlive this.
  DrawnRows(const DrawKernels& kernels, ThreadPool& threads, uint32_t max_rows, uint32_t vocab_size);
  // Bytes that this takes, but for the lists of draws.
  static uint64_t bytes(const ThreadPool& threads, uint32_t max_rows, uint32_t vocab_size);

  uint32_t vocab_size() const { return vocab_size_; }

  // Starts with new rows. Returns their logits, (rows.size(), vocab_size), which the caller writes before
  // draw().
  std::span<float> start(std::span<const HeadRow> rows);
  void draw();

  std::span<const std::optional<uint32_t>> drawn() override { return drawn_; }
  std::span<const float> row(uint32_t index) override;

 private:
  std::span<float> logits(uint32_t index);

  ThreadPool& threads_;
  uint32_t max_rows_;
  uint32_t vocab_size_;
  std::unique_ptr<float[]> logits_;  // (max_rows, vocab_size); a row takes memory when it is first computed
  std::vector<RowDrawer> drawers_;   // one for each thread if there can be many rows, otherwise one
  std::vector<HeadRow> rows_;
  std::vector<std::optional<uint32_t>> drawn_;
};

}  // namespace runnel
