#include "cpu-runner/product.h"

#include <algorithm>
#include <vector>

#include "runner/check.h"

namespace runnel {
namespace {

// Tiles a thread takes at a time: 64 rows. A multiple of a block's 32, so that glu's block sums stay in a
// chunk.
constexpr uint32_t kChunkTiles = 4;
constexpr uint32_t kChunkRows = kChunkTiles * kTileRows;
static_assert(kChunkRows % kBlockColumns == 0);

uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

// One chunk: some tiles of a part, and the rows of the batch that are its columns.
struct Piece {
  uint32_t first_tile;
  uint32_t num_tiles;
  uint32_t first_output;  // row of the part
  uint32_t num_outputs;
  uint32_t first_column;
  uint32_t num_columns;
};

// The pieces of one part. Columns are cut evenly: two pieces of 24 rather than one of 48 and a rest.
class Pieces {
 public:
  Pieces(const TiledMatrix& part, uint32_t num_columns)
      : part_(part),
        num_columns_(num_columns),
        num_column_groups_(divide_up(num_columns, kMaxColumns)),
        count_(divide_up(part.num_tiles(), kChunkTiles) * num_column_groups_) {}

  uint32_t count() const { return count_; }

  Piece operator[](uint32_t index) const {
    const uint32_t first_tile = index / num_column_groups_ * kChunkTiles;
    const uint64_t group = index % num_column_groups_;
    const auto first_column = static_cast<uint32_t>(group * num_columns_ / num_column_groups_);
    const auto end_column = static_cast<uint32_t>((group + 1) * num_columns_ / num_column_groups_);
    const uint32_t first_output = first_tile * kTileRows;
    return {first_tile,   std::min(kChunkTiles, part_.num_tiles() - first_tile),
            first_output, std::min(kChunkRows, part_.rows() - first_output),
            first_column, end_column - first_column};
  }

 private:
  const TiledMatrix& part_;
  uint32_t num_columns_;
  uint32_t num_column_groups_;
  uint32_t count_;
};

// (columns, kChunkRows)
using PieceOutput = float[kMaxColumns * kChunkRows];

void multiply_piece(const Kernels& kernels, const TiledMatrix& part, const Activation& in, const Piece& piece,
                    float* out) {
  kernels.multiply(part.weights(), piece.first_tile, piece.num_tiles,
                   in.columns(piece.first_column, piece.num_columns), out, kChunkRows);
}

}  // namespace

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
    multiply_piece(executor.kernels, part->matrix, in, piece, products);
    const uint32_t first_row = part->first_row + piece.first_output;
    for (uint32_t column = 0; column < piece.num_columns; ++column) {
      float* product = products + column * kChunkRows;
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
    multiply_piece(executor.kernels, gate_up.parts[0], in, piece, gates);
    multiply_piece(executor.kernels, gate_up.parts[1], in, piece, ups);
    for (uint32_t column = 0; column < piece.num_columns; ++column) {
      const uint32_t row = piece.first_column + column;
      float* to = out.row(row) + piece.first_output;
      executor.kernels.silu_multiply(gates + column * kChunkRows, ups + column * kChunkRows,
                                     piece.num_outputs, to);
      executor.kernels.block_sums(to, piece.num_outputs, out.sums(row) + piece.first_output / kBlockColumns);
    }
  });
}

}  // namespace runnel
