// Weights as products want them. A matrix of the file is laid out anew in tiles of 32 rows, so that a vector
// holds the same columns of neighbouring rows and no sum ever crosses lanes. The last tile is filled up with
// rows of zeros.
//
//   tile        Q4_0, Q8_0: scales, quants; Q4_1: scales, minima, quants; F16, F32: values
//   scales      block by block of 32 columns, 32 halves, one of each row; minima alike
//   quants      block by block, word by word: four bytes of each row, as they follow each other in the
//               file's block: 4 words of 4 bits (columns 4 w to 4 w + 3 low, 16 more high), 8 words of 8 bits
//   values      column by column, one of each row
//
// As many bytes as in the file, but for the rows of zeros; each part begins at a multiple of 64.
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
