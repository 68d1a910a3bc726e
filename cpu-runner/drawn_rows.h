// Rows of logits and what is drawn from them, by all threads: whole rows side by side where there are many,
// the ranges of one row after the other where there are few.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpu-runner/kernels/draw_kernels.h"
#include "cpu-runner/row_drawer.h"
#include "cpu-runner/thread_pool.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

class DrawnRows final : public LogitRows {
 public:
  // kernels and threads outlive this.
  DrawnRows(const DrawKernels& kernels, ThreadPool& threads, uint32_t max_rows, uint32_t vocab_size);

  uint32_t vocab_size() const { return vocab_size_; }

  // Other rows from now on: (rows.size(), vocab_size), for the caller to write before it calls draw.
  std::span<float> start(std::span<const HeadRow> rows);
  void draw();

  std::span<const std::optional<uint32_t>> drawn() override { return drawn_; }
  std::span<const float> row(uint32_t index) override;

 private:
  std::span<float> logits(uint32_t index);

  ThreadPool& threads_;
  uint32_t max_rows_;
  uint32_t vocab_size_;
  std::unique_ptr<float[]> logits_;  // (max_rows, vocab_size); memory is touched when a row is first computed
  std::vector<RowDrawer> drawers_;   // one for each thread, where that may be of use
  std::vector<HeadRow> rows_;
  std::vector<std::optional<uint32_t>> drawn_;
};

}  // namespace runnel
