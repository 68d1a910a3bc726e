// Products cut into pieces for the threads. A piece is a tile of 32 rows of a matrix and some rows of an
// activation. Each output is computed whole inside one piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/kernels/product.h"
#include "cpu-runner/matrix/product.h"
#include "cpu-runner/thread_pool.h"

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
  // first_output: the output of the first row.
  Pieces(Range rows, Range columns, uint32_t first_output = 0);

  uint32_t count() const { return count_; }
  Piece operator[](uint32_t index) const;

 private:
  uint32_t begin_of(uint32_t group) const;

  Range rows_;
  Range columns_;
  uint32_t first_output_;
  uint32_t num_column_groups_;
  uint32_t count_;
};

// The pieces of several products, which are computed in one loop. They are ordered by the nodes that have
// their tiles, and by products within a node.
class PieceList {
 public:
  // Rows of a matrix times rows of an activation, as for Pieces. The rows are all of the matrix, or those of
  // a section.
  struct Product {
    Pieces::Range rows;
    Pieces::Range columns;
    uint32_t first_output = 0;  // of the first row
  };
  PieceList(std::span<const Product> products, uint32_t num_nodes);

  // For ThreadPool::parallel_for_nodes.
  std::span<const uint32_t> ends() const { return ends_; }
  struct Entry {
    uint32_t product;  // index
    Piece piece;
  };
  Entry operator[](uint32_t index) const;

 private:
  // What one node has of a product.
  struct Part {
    uint32_t product;
    Pieces pieces;
    uint32_t first_piece;
  };
  std::vector<Part> parts_;
  std::vector<uint32_t> ends_;
};

// Calls fn(index of the product, piece, node of the thread) for the pieces of the products, on all threads.
template <typename Fn>
void for_each_piece(ThreadPool& threads, std::span<const PieceList::Product> products, const Fn& fn) {
  const PieceList pieces(products, threads.num_nodes());
  threads.parallel_for_nodes(pieces.ends(), [&](uint32_t index, uint32_t node) {
    const auto [product, piece] = pieces[index];
    fn(product, piece, node);
  });
}

// out = the results of the tile, (columns, kTileRows), computed by a thread of this node. bias is added: one
// value for each row of the matrix, or none.
void multiply_piece(const Executor& executor, const TiledMatrix& matrix, const Activation& in,
                    std::span<const float> bias, const Piece& piece, uint32_t node, float* out);

// The part of gated_multiply_rows' out that belongs to the piece, made ready for a product. Computed by a
// thread of this node.
void multiply_gated_piece(const Executor& executor, const GatedMatrices& matrices, const Activation& in,
                          const Piece& piece, uint32_t node, Activation& out);

}  // namespace runnel
