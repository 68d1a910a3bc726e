// Weights as products want them. A matrix of the file is laid out anew in tiles of 32 rows, so that a vector
// holds the same columns of neighbouring rows and no sum ever crosses lanes. The last tile is filled up with
// rows of zeros.
//
//   tile        segment after segment of 256 columns; the last may be shorter
//   segment     of quantised types blocks of 32 columns, one after the other; behind the scales and minima
//               where those are once for the segment. Of floats values
//   block       scales and minima, or sub-scales and sub-minima, as far as there are any, and words
//   scales      32 halves, one of each row; minima alike
//   sub-scales  32 bytes, one of each row, or two; sub-minima alike, or in the bytes' high halves
//               (pack_sub_scales)
//   words       word by word of the block's codes (QuantFormat), one of each row
//   values      column by column, one of each row
//
// So a product reads a tile from front to back. About as many bytes as in the file, but for the rows of
// zeros: sub-scales of 6 bits take bytes. Words begin at multiples of 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/kernels/product.h"
#include "cpu-runner/thread_pool.h"
#include "cpu-runner/weight_arena.h"
#include "runner/formats/tensor.h"
#include "runner/result.h"

namespace runnel {

class TiledMatrix {
 public:
  // Copies the tensor, which has two dimensions, into the arena, which must outlive this. Errors: kBadModel
  // for another shape, kSystem.
  static Result<TiledMatrix> from_tensor(const TensorView& tensor, WeightArena& arena, ThreadPool& threads);

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return weights_.columns; }
  uint32_t num_tiles() const { return (rows_ + kTileRows - 1) / kTileRows; }
  const TiledWeights& weights() const { return weights_; }

  // One row as floats, with the values dequantize_row gives; out has columns() entries.
  void copy_row(uint32_t row, std::span<float> out) const;

 private:
  TiledWeights weights_{};
  uint32_t rows_ = 0;
};

// Matrices of equal columns that are multiplied as one, their rows one below the other. Each begins with a
// tile of its own and keeps its own type.
struct StackedMatrix {
  std::vector<TiledMatrix> parts;

  uint32_t columns() const { return parts.front().columns(); }
  uint32_t rows() const;
};

}  // namespace runnel
