// Products cut into pieces for the threads. A piece is a tile of 32 rows of a matrix and some rows of an
// activation. Each output is computed whole inside one piece.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu-runner/kernels/product.h"
#include "cpu-runner/matrix/product.h"

namespace runnel {

// Limit of the rows of an activation in a piece: whole panels. The results of a tile for so many rows stay in
// the first cache level.
inline constexpr uint32_t kMaxPieceColumns = 5 * kPanelRows;

// (columns, kTileRows)
using PieceOutput = float[kMaxPieceColumns * kTileRows];

struct Piece {
  uint32_t tile;          // of the matrix
  uint32_t first_output;  // counted from the first row of the product
  uint32_t num_outputs;
  uint32_t first_column;  // first row of the activation
  uint32_t num_columns;
};

// The pieces of one product: rows of a matrix, the first of which begins a tile, times rows of an activation.
// The rows of the activation are cut evenly: two pieces of 36 instead of one of 60 and a rest.
class Pieces {
 public:
  struct Range {
    uint32_t first;
    uint32_t count;
  };
  Pieces(Range rows, Range columns);

  uint32_t count() const { return count_; }
  Piece operator[](uint32_t index) const;

 private:
  uint32_t begin_of(uint32_t group) const;

  Range rows_;
  Range columns_;
  uint32_t num_column_groups_;
  uint32_t count_;
};

// out = the results of the tile, (columns, kTileRows).
void multiply_piece(const Executor& executor, const TiledMatrix& matrix, const Activation& in,
                    const Piece& piece, float* out);

// The part of out = f(gate . in) x (up . in), or of f(up . in + bias) without a gate, that belongs to the
// piece, made ready for a product.
void multiply_gated_piece(const Executor& executor, const GatedMatrices& matrices, const Activation& in,
                          const Piece& piece, Activation& out);

}  // namespace runnel
