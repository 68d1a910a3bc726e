#include "cpu-runner/matrix/product.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cpu-runner/matrix/node_parts.h"
#include "cpu-runner/matrix/product_pieces.h"
#include "runner/check.h"

namespace runnel {
namespace {

static_assert(kTileRows == kBlockColumns);  // a piece of a gated product is one block of the result

uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

constexpr auto kOnes = [] {
  std::array<float, kTileRows> ones{};
  for (float& one : ones) one = 1.0f;
  return ones;
}();

auto kernel_for_ready(const Executor& executor) {
  return executor.activations == ActivationType::kI8 ? executor.kernels.make_ready_i8
                                                     : executor.kernels.make_ready_f32;
}

}  // namespace

Pieces::Pieces(Range rows, Range columns, uint32_t first_output)
    : rows_(rows),
      columns_(columns),
      first_output_(first_output),
      num_column_groups_(divide_up(columns.count, kMaxPieceColumns)),
      count_(divide_up(rows.count, kTileRows) * num_column_groups_) {
  CHECK(rows.first % kTileRows == 0);
}

Piece Pieces::operator[](uint32_t index) const {
  const uint32_t tile = index / num_column_groups_;
  const uint32_t group = index % num_column_groups_;
  const uint32_t first_row = tile * kTileRows;
  const uint32_t first_column = begin_of(group);
  return {rows_.first / kTileRows + tile, first_output_ + first_row,
          std::min(kTileRows, rows_.count - first_row), columns_.first + first_column,
          begin_of(group + 1) - first_column};
}

uint32_t Pieces::begin_of(uint32_t group) const {
  const uint64_t even = uint64_t{group} * columns_.count / num_column_groups_;
  return std::min(divide_up(static_cast<uint32_t>(even), kPanelRows) * kPanelRows, columns_.count);
}

PieceList::PieceList(std::span<const Product> products, uint32_t num_nodes) {
  parts_.reserve(products.size() * num_nodes);
  ends_.reserve(num_nodes);
  uint32_t num_pieces = 0;
  for (uint32_t node = 0; node < num_nodes; ++node) {
    for (uint32_t i = 0; i < products.size(); ++i) {
      const auto& [rows, columns, first_output] = products[i];
      const NodePart tiles = part_of_node(divide_up(rows.count, kTileRows), node, num_nodes);
      if (tiles.begin == tiles.end) continue;
      const uint32_t first = tiles.begin * kTileRows;
      const uint32_t count = std::min(tiles.end * kTileRows, rows.count) - first;
      parts_.push_back({i, Pieces({rows.first + first, count}, columns, first_output + first), num_pieces});
      num_pieces += parts_.back().pieces.count();
    }
    ends_.push_back(num_pieces);
  }
}

PieceList::Entry PieceList::operator[](uint32_t index) const {
  const auto part = std::prev(std::ranges::upper_bound(parts_, index, {}, &Part::first_piece));
  return {part->product, part->pieces[index - part->first_piece]};
}

void multiply_piece(const Executor& executor, const TiledMatrix& matrix, const Activation& in,
                    std::span<const float> bias, const Piece& piece, uint32_t node, float* out) {
  const auto multiply = executor.activations == ActivationType::kI8 ? executor.kernels.multiply_i8
                                                                    : executor.kernels.multiply_f32;
  multiply(matrix.weights(), piece.tile, in.columns(piece.first_column, piece.num_columns, node), out,
           kTileRows);
  if (bias.empty()) return;
  const std::span<const float> of_tile = bias.subspan(size_t{piece.tile} * kTileRows, piece.num_outputs);
  for (uint32_t column = 0; column < piece.num_columns; ++column) {
    for (uint32_t i = 0; i < piece.num_outputs; ++i) out[column * kTileRows + i] += of_tile[i];
  }
}

auto kernel_for(Nonlinearity nonlinearity, const Kernels& kernels) {
  switch (nonlinearity) {
    case Nonlinearity::kSilu:
      return kernels.silu_multiply;
    case Nonlinearity::kGelu:
      return kernels.gelu_multiply;
    case Nonlinearity::kGeluByError:
      return kernels.gelu_by_error_multiply;
    case Nonlinearity::kClampedSwish:
      break;
  }
  return kernels.clamped_swish_multiply;
}

void multiply_gated_piece(const Executor& executor, const GatedMatrices& matrices, const Activation& in,
                          const Piece& piece, uint32_t node, Activation& out) {
  const auto multiply = kernel_for(matrices.nonlinearity, executor.kernels);
  PieceOutput gates;
  PieceOutput ups;
  if (matrices.gate != nullptr)
    multiply_piece(executor, *matrices.gate, in, matrices.gate_bias, piece, node, gates);
  multiply_piece(executor, matrices.up, in, matrices.up_bias, piece, node, ups);
  for (uint32_t column = 0; column < piece.num_columns; ++column) {
    const uint32_t row = piece.first_column + column;
    const float* up = ups + column * kTileRows;
    float* to = out.row(row) + piece.first_output;
    // A product with 1 changes no bits.
    if (matrices.gate != nullptr)
      multiply(gates + column * kTileRows, up, piece.num_outputs, to);
    else
      multiply(up, kOnes.data(), piece.num_outputs, to);
  }
  // A column of blocks in each panel; behind the last output are zeros.
  for (uint32_t done = 0; done < piece.num_columns;) {
    const uint32_t row = piece.first_column + done;
    const uint32_t count = std::min(piece.num_columns - done, kPanelRows - row % kPanelRows);
    kernel_for_ready(executor)(out.row(row) + piece.first_output, out.stride(), count,
                               out.block(row, piece.first_output), 1);
    out.copy_blocks(row, piece.first_output, count, 1);
    done += count;
  }
}

void make_ready(const Executor& executor, Activation& activation, uint32_t row) {
  const uint32_t num_blocks = divide_up(activation.width(), kBlockColumns);
  kernel_for_ready(executor)(activation.row(row), kBlockColumns, num_blocks, activation.block(row, 0),
                             kPanelRows);
  activation.copy_blocks(row, 0, num_blocks, kPanelRows);
}

void multiply_rows(const Executor& executor, const StackedMatrix& matrix, const Activation& in,
                   uint32_t num_rows, std::span<const float> bias, bool add, float* out, size_t out_stride) {
  CHECK(in.width() == matrix.columns() && num_rows <= in.max_rows());
  CHECK(bias.empty() || bias.size() == matrix.rows());
  std::vector<PieceList::Product> products;  // of the parts
  products.reserve(matrix.parts.size());
  uint32_t num_rows_before = 0;
  for (const TiledMatrix& part : matrix.parts) {
    products.push_back({{0, part.rows()}, {0, num_rows}, num_rows_before});
    num_rows_before += part.rows();
  }
  const auto bias_of = [&](uint32_t part) {
    return bias.empty() ? bias : bias.subspan(products[part].first_output, products[part].rows.count);
  };

  for_each_piece(executor.threads, products, [&](uint32_t part, const Piece& piece, uint32_t node) {
    PieceOutput results;
    multiply_piece(executor, matrix.parts[part], in, bias_of(part), piece, node, results);
    for (uint32_t column = 0; column < piece.num_columns; ++column) {
      const float* product = results + column * kTileRows;
      float* to = out + (piece.first_column + column) * out_stride + piece.first_output;
      if (add) {
        for (uint32_t i = 0; i < piece.num_outputs; ++i) to[i] = product[i] + to[i];
      } else {
        std::copy_n(product, piece.num_outputs, to);
      }
    }
  });
}

void gated_multiply_rows(const Executor& executor, const GatedMatrices& matrices, const Activation& in,
                         uint32_t num_rows, Activation& out) {
  const TiledMatrix& up = matrices.up;
  CHECK(matrices.gate == nullptr || matrices.gate->rows() == up.rows());
  for (const std::span<const float> bias : {matrices.gate_bias, matrices.up_bias})
    CHECK(bias.empty() || bias.size() == up.rows());
  CHECK(in.width() == up.columns() && out.width() == up.rows());
  CHECK(num_rows <= in.max_rows() && num_rows <= out.max_rows());
  const PieceList::Product product{{0, up.rows()}, {0, num_rows}};
  for_each_piece(executor.threads, {&product, 1}, [&](uint32_t, const Piece& piece, uint32_t node) {
    multiply_gated_piece(executor, matrices, in, piece, node, out);
  });
}

}  // namespace runnel
