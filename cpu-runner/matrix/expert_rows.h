// A feed-forward part made of experts. Rows are ordered by expert, so that the weights of an expert are read
// once for all rows that use it. The outputs of a row are then summed in the order of its own experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/matrix/activation.h"
#include "cpu-runner/matrix/product.h"
#include "runner/backend/decoder_spec.h"

namespace runnel {

class ExpertRows {
 public:
  ExpertRows() = default;
  // A process that computes a part of each expert has so many columns of its outputs and of what is gated.
  // threads: those that compute.
  ExpertRows(uint32_t max_rows, const DecoderWidths& widths, uint32_t own_hidden, uint32_t own_gated,
             ThreadPool& threads);
  // Bytes that this takes with threads of so many nodes.
  static uint64_t bytes(uint32_t max_rows, const DecoderWidths& widths, uint32_t num_nodes);

  // Chooses the experts of each row of in, and computes the gated product of the row for each of them.
  // gate_up has the gates of all experts, then the ups of all experts. Of each matrix there is a bias with a
  // value for each row, or none.
  void gate(const Executor& executor, const StackedMatrix& router, std::span<const float> router_bias,
            const StackedMatrix& gate_up, std::span<const float> gate_up_bias, Nonlinearity nonlinearity,
            const Activation& in, uint32_t num_rows);
  // The result of gate(): the columns that this process has computed, and all columns, of which others may
  // have to be filled in.
  const Activation& own_gated() const { return has_all_ ? gated_ : own_gated_; }
  Activation& gated() { return gated_; }
  // hidden = hidden + the weighted outputs of the experts that the last gate() has chosen, in the columns of
  // hidden from first_column on that this process has. down_bias: one value for each row of down, or none.
  void add_output(const Executor& executor, const StackedMatrix& down, std::span<const float> down_bias,
                  uint32_t num_rows, uint32_t first_column, Activation& hidden);

 private:
  // A row of the batch at one of its experts.
  struct Use {
    uint32_t expert;
    float weight;
    uint32_t place;  // among all uses, ordered by expert
  };

  void choose(const Executor& executor, const StackedMatrix& router, std::span<const float> bias,
              const Activation& in, uint32_t num_rows);
  void order(uint32_t num_rows);
  // Calls fn(piece, node of the thread) for the pieces of all experts that are used; each expert has
  // rows_of_expert rows of the matrix.
  template <typename Fn>
  void for_each_piece_of_uses(const Executor& executor, uint32_t rows_of_expert, const Fn& fn) const;

  uint32_t num_experts_ = 0;
  uint32_t num_used_ = 0;
  std::vector<float> logits_;          // (max_rows, num_experts)
  std::vector<Use> uses_;              // (max_rows, num_used), the largest logit first
  std::vector<uint32_t> first_place_;  // (num_experts + 1), first place of each expert
  // (max_rows * num_used, width), in the order of places.
  Activation in_;
  bool has_all_ = true;   // this process computes all columns
  Activation own_gated_;  // empty if it does
  Activation gated_;
  Activation out_;
};

}  // namespace runnel
