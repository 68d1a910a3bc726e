#include "cpu-runner/matrix/expert_rows.h"

#include <algorithm>
#include <cmath>

#include "cpu-runner/matrix/product_pieces.h"
#include "runner/backend/expert_rank.h"
#include "runner/backend/numerics.h"
#include "runner/check.h"

namespace runnel {

ExpertRows::ExpertRows(uint32_t max_rows, const DecoderWidths& widths, uint32_t own_hidden,
                       uint32_t own_gated, ThreadPool& threads)
    : num_experts_(widths.experts.num_experts),
      num_used_(widths.experts.num_used),
      logits_(size_t{max_rows} * num_experts_),
      uses_(size_t{max_rows} * num_used_),
      first_place_(size_t{num_experts_} + 1),
      in_(max_rows * num_used_, widths.hidden, threads),
      has_all_(own_gated == widths.gated),
      own_gated_(has_all_ ? 0 : max_rows * num_used_, own_gated),
      gated_(max_rows * num_used_, widths.gated, threads),
      out_(max_rows * num_used_, own_hidden) {}

uint64_t ExpertRows::bytes(uint32_t max_rows, const DecoderWidths& widths, uint32_t num_nodes) {
  const uint32_t num_uses = max_rows * widths.experts.num_used;
  return uint64_t{max_rows} * widths.experts.num_experts * sizeof(float) + num_uses * sizeof(Use) +
         Activation::bytes(num_uses, widths.hidden, num_nodes) +
         Activation::bytes(num_uses, widths.gated, num_nodes) + Activation::bytes(num_uses, widths.hidden);
}

void ExpertRows::choose(const Executor& executor, const StackedMatrix& router, std::span<const float> bias,
                        const Activation& in, uint32_t num_rows) {
  CHECK(router.rows() == num_experts_);
  multiply_rows(executor, router, in, num_rows, bias, /*add=*/false, logits_.data(), num_experts_);
  executor.threads.parallel_for(num_rows, [&](uint32_t row) {
    const std::span<const float> logits(logits_.data() + size_t{row} * num_experts_, num_experts_);
    const std::span<Use> uses(uses_.data() + size_t{row} * num_used_, num_used_);
    uint64_t last = UINT64_MAX;
    float largest = 0.0f;
    float sum = 0.0f;
    for (Use& use : uses) {
      uint64_t best = 0;
      for (uint32_t expert = 0; expert < num_experts_; ++expert) {
        const uint64_t rank = expert_rank(logits[expert], expert);
        if (rank < last) best = std::max(best, rank);
      }
      last = best;
      use.expert = expert_of_rank(best);
      if (&use == &uses.front()) largest = logits[use.expert];
      use.weight = exp_f32(logits[use.expert] - largest);
      sum = sum + use.weight;
    }
    for (Use& use : uses) use.weight = use.weight / sum;
  });
}

void ExpertRows::order(uint32_t num_rows) {
  const std::span<Use> uses(uses_.data(), size_t{num_rows} * num_used_);
  std::ranges::fill(first_place_, 0u);
  for (const Use& use : uses) ++first_place_[use.expert + 1];
  for (uint32_t expert = 0; expert < num_experts_; ++expert) first_place_[expert + 1] += first_place_[expert];
  std::vector<uint32_t> next(first_place_.begin(), first_place_.end() - 1);
  for (Use& use : uses) use.place = next[use.expert]++;
}

template <typename Fn>
void ExpertRows::for_each_piece_of_uses(const Executor& executor, uint32_t rows_of_expert,
                                        const Fn& fn) const {
  std::vector<PieceList::Product> products;
  for (uint32_t expert = 0; expert < num_experts_; ++expert) {
    const uint32_t first = first_place_[expert];
    const uint32_t count = first_place_[expert + 1] - first;
    if (count > 0) products.push_back({{expert * rows_of_expert, rows_of_expert}, {first, count}});
  }
  for_each_piece(executor.threads, products,
                 [&](uint32_t, const Piece& piece, uint32_t node) { fn(piece, node); });
}

void ExpertRows::gate(const Executor& executor, const StackedMatrix& router,
                      std::span<const float> router_bias, const StackedMatrix& gate_up,
                      std::span<const float> gate_up_bias, Nonlinearity nonlinearity, const Activation& in,
                      uint32_t num_rows) {
  CHECK(gate_up.parts.size() == 2 && num_rows * num_used_ <= in_.max_rows());
  Activation& out = has_all_ ? gated_ : own_gated_;
  const size_t rows_of_all = size_t{num_experts_} * out.width();
  for (const TiledMatrix& part : gate_up.parts) CHECK(part.rows() == rows_of_all);
  CHECK(gate_up_bias.empty() || gate_up_bias.size() == 2 * rows_of_all);
  choose(executor, router, router_bias, in, num_rows);
  order(num_rows);
  executor.threads.parallel_for(num_rows, [&](uint32_t row) {
    for (uint32_t i = 0; i < num_used_; ++i) in_.copy_row(uses_[size_t{row} * num_used_ + i].place, in, row);
  });
  const size_t first_up = gate_up_bias.size() / 2;
  const GatedMatrices matrices{&gate_up.parts[0], gate_up.parts[1], gate_up_bias.first(first_up),
                               gate_up_bias.subspan(first_up), nonlinearity};
  for_each_piece_of_uses(executor, out.width(), [&](const Piece& piece, uint32_t node) {
    multiply_gated_piece(executor, matrices, in_, piece, node, out);
  });
}

void ExpertRows::add_output(const Executor& executor, const StackedMatrix& down,
                            std::span<const float> down_bias, uint32_t num_rows, uint32_t first_column,
                            Activation& hidden) {
  const uint32_t width = out_.width();
  CHECK(down.parts.size() == 1 && down.rows() == num_experts_ * width);
  CHECK(down_bias.empty() || down_bias.size() == down.rows());
  CHECK(first_column + width <= hidden.width());
  for_each_piece_of_uses(executor, width, [&](const Piece& piece, uint32_t node) {
    PieceOutput products;
    multiply_piece(executor, down.parts[0], gated_, down_bias, piece, node, products);
    for (uint32_t column = 0; column < piece.num_columns; ++column) {
      std::copy_n(products + column * kTileRows, piece.num_outputs,
                  out_.row(piece.first_column + column) + piece.first_output);
    }
  });
  executor.threads.parallel_for(num_rows, [&](uint32_t row) {
    const std::span<const Use> uses(uses_.data() + size_t{row} * num_used_, num_used_);
    float* to = hidden.row(row) + first_column;
    for (uint32_t i = 0; i < width; ++i) {
      float sum = 0.0f;
      for (const Use& use : uses) sum = std::fma(use.weight, out_.row(use.place)[i], sum);
      to[i] = sum + to[i];
    }
  });
}

}  // namespace runnel
