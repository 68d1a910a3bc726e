#include "cpu-runner/product.h"

#include <algorithm>
#include <vector>

#include "runner/check.h"

namespace runnel {
namespace {

// Of a chunk: what a tile gives for them stays in the first cache level.
constexpr uint32_t kMaxColumns = 64;
// Kernels take columns by fours, so chunks are cut between them.
constexpr uint32_t kColumnUnit = 4;
static_assert(kTileRows == kBlockColumns);  // a chunk of glu is a block of what comes after it

uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

// One chunk: a tile of a part, and the rows of the batch that are its columns.
struct Piece {
  uint32_t tile;
  uint32_t first_output;  // row of the part
  uint32_t num_outputs;
  uint32_t first_column;
  uint32_t num_columns;
};

// The pieces of one part. Columns are cut evenly: two pieces of 40 rather than one of 64 and a rest.
class Pieces {
 public:
  Pieces(const TiledMatrix& part, uint32_t num_columns)
      : part_(part),
        num_columns_(num_columns),
        num_column_groups_(divide_up(num_columns, kMaxColumns)),
        count_(part.num_tiles() * num_column_groups_) {}

  uint32_t count() const { return count_; }

  Piece operator[](uint32_t index) const {
    const uint32_t tile = index / num_column_groups_;
    const uint32_t group = index % num_column_groups_;
    const uint32_t first_output = tile * kTileRows;
    const uint32_t first_column = begin_of(group);
    return {tile, first_output, std::min(kTileRows, part_.rows() - first_output), first_column,
            begin_of(group + 1) - first_column};
  }

 private:
  uint32_t begin_of(uint32_t group) const {
    const uint64_t even = uint64_t{group} * num_columns_ / num_column_groups_;
    return std::min(divide_up(static_cast<uint32_t>(even), kColumnUnit) * kColumnUnit, num_columns_);
  }

  const TiledMatrix& part_;
  uint32_t num_columns_;
  uint32_t num_column_groups_;
  uint32_t count_;
};

// (columns, kTileRows)
using PieceOutput = float[kMaxColumns * kTileRows];

void multiply_piece(const Executor& executor, const TiledMatrix& part, const Activation& in,
                    const Piece& piece, float* out) {
  const auto multiply = executor.activations == ActivationType::kI8 ? executor.kernels.multiply_i8
                                                                    : executor.kernels.multiply_f32;
  multiply(part.weights(), piece.tile, in.columns(piece.first_column, piece.num_columns), out, kTileRows);
}

void make_blocks_ready(const Executor& executor, const float* values, uint32_t n, const ReadyBlocks& out) {
  const auto make_ready = executor.activations == ActivationType::kI8 ? executor.kernels.make_ready_i8
                                                                      : executor.kernels.make_ready_f32;
  make_ready(values, n, out);
}

}  // namespace

void make_ready(const Executor& executor, Activation& activation, uint32_t row) {
  make_blocks_ready(executor, activation.row(row), activation.width(), activation.blocks(row, 0));
}

void multiply_rows(const Executor& executor, const StackedMatrix& matrix, const Activation& in,
                   uint32_t num_rows, std::span<const float> bias, bool add, float* out, size_t out_stride) {
  CHECK(in.width() == matrix.columns() && num_rows <= in.max_rows());
  CHECK(bias.empty() || bias.size() == matrix.rows());
  struct Part {
    const TiledMatrix& matrix;
    Pieces pieces;
    uint32_t first_row;  // in the stacked matrix
    uint32_t first_piece;
  };
  std::vector<Part> parts;
  uint32_t num_rows_before = 0;
  uint32_t num_pieces = 0;
  for (const TiledMatrix& part : matrix.parts) {
    parts.push_back({part, Pieces(part, num_rows), num_rows_before, num_pieces});
    num_rows_before += part.rows();
    num_pieces += parts.back().pieces.count();
  }

  executor.threads.parallel_for(num_pieces, [&](uint32_t chunk) {
    const auto part = std::prev(std::ranges::upper_bound(parts, chunk, {}, &Part::first_piece));
    const Piece piece = part->pieces[chunk - part->first_piece];
    PieceOutput products;
    multiply_piece(executor, part->matrix, in, piece, products);
    const uint32_t first_row = part->first_row + piece.first_output;
    for (uint32_t column = 0; column < piece.num_columns; ++column) {
      float* product = products + column * kTileRows;
      float* to = out + (piece.first_column + column) * out_stride + first_row;
      if (!bias.empty()) {
        for (uint32_t i = 0; i < piece.num_outputs; ++i) product[i] += bias[first_row + i];
      }
      if (add) {
        for (uint32_t i = 0; i < piece.num_outputs; ++i) to[i] = product[i] + to[i];
      } else {
        std::copy_n(product, piece.num_outputs, to);
      }
    }
  });
}

void gated_multiply_rows(const Executor& executor, const StackedMatrix& gate_up, const Activation& in,
                         uint32_t num_rows, Activation& out) {
  CHECK(gate_up.parts.size() == 2 && gate_up.parts[0].rows() == gate_up.parts[1].rows());
  CHECK(in.width() == gate_up.columns() && out.width() == gate_up.parts[0].rows());
  CHECK(num_rows <= in.max_rows() && num_rows <= out.max_rows());
  const Pieces pieces(gate_up.parts[0], num_rows);
  executor.threads.parallel_for(pieces.count(), [&](uint32_t chunk) {
    const Piece piece = pieces[chunk];
    PieceOutput gates;
    PieceOutput ups;
    multiply_piece(executor, gate_up.parts[0], in, piece, gates);
    multiply_piece(executor, gate_up.parts[1], in, piece, ups);
    for (uint32_t column = 0; column < piece.num_columns; ++column) {
      const uint32_t row = piece.first_column + column;
      float* to = out.row(row) + piece.first_output;
      executor.kernels.silu_multiply(gates + column * kTileRows, ups + column * kTileRows, piece.num_outputs,
                                     to);
      make_blocks_ready(executor, to, piece.num_outputs, out.blocks(row, piece.first_output));
    }
  });
}

}  // namespace runnel
