// A feed-forward part of experts. What rows need is ordered by expert, so that an expert's weights are read
// once for all rows that use it; each row's sums are then put together in the order of its own experts.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu-runner/activation.h"
#include "cpu-runner/product.h"
#include "runner/decoder_spec.h"

namespace runnel {

class ExpertRows {
 public:
  ExpertRows() = default;
  ExpertRows(uint32_t max_rows, const DecoderWidths& widths);

  // Chooses the experts of each row of in, and multiplies it by their gates and ups, whose rows are those of
  // all experts in turn.
  void gate(const Executor& executor, const StackedMatrix& router, const StackedMatrix& gate_up,
            Nonlinearity nonlinearity, const Activation& in, uint32_t num_rows);
  // hidden = hidden + what the experts chosen by the last gate give.
  void add_output(const Executor& executor, const StackedMatrix& down, uint32_t num_rows, Activation& hidden);

 private:
  // A row of the batch at one of its experts.
  struct Use {
    uint32_t expert;
    float weight;
    uint32_t place;  // among all uses, ordered by expert
  };

  void choose(const Executor& executor, const StackedMatrix& router, const Activation& in, uint32_t num_rows);
  void order(uint32_t num_rows);
  // Calls fn(piece) for the pieces of all experts that are used, rows_of_expert rows each.
  template <typename Fn>
  void for_each_piece(const Executor& executor, uint32_t rows_of_expert, const Fn& fn) const;

  uint32_t num_experts_ = 0;
  uint32_t num_used_ = 0;
  std::vector<float> logits_;          // (max_rows, num_experts)
  std::vector<Use> uses_;              // (max_rows, num_used), the largest logit's first
  std::vector<uint32_t> first_place_;  // (num_experts + 1), of each expert
  // (max_rows * num_used, width), in the order of places
  Activation in_;
  Activation gated_;
  Activation out_;
};

}  // namespace runnel
