// Weights as products want them. A matrix of the file is laid out anew in tiles of 16 rows, k by k, so that
// one vector holds the same k of neighbouring rows and no sum ever crosses lanes. The last tile is filled up
// with rows of zeros.
//
//   tile        blocks of 32 k, one after the other (F16 and F32: the last may be shorter)
//   block of    scales: 16 halves; Q4_1: minima: 16 halves
//   Q4_0, Q4_1  4 groups of 8 k: rows 0 to 7, then 8 to 15, 32 bits each; bits 4 i to 4 i + 3 are k = i of
//   the group Q8_0        8 groups of 4 k: the same, with 8 bits for each k F16, F32    k by k, the 16 rows'
//   values
//
// As many bytes as in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/memory.h"
#include "cpu-runner/thread_pool.h"
#include "runner/formats/tensor.h"
#include "runner/result.h"

namespace runnel {

class TiledMatrix {
 public:
  // Copies the tensor, which has two dimensions. Errors: kBadModel for another shape, kSystem.
  static Result<TiledMatrix> from_tensor(const TensorView& tensor, ThreadPool& threads);

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return weights_.columns; }
  uint32_t num_tiles() const { return (rows_ + kTileRows - 1) / kTileRows; }
  uint64_t bytes() const { return memory_.bytes(); }
  const TiledWeights& weights() const { return weights_; }

  // One row as floats, with the values dequantize_row gives; out has columns() entries.
  void copy_row(uint32_t row, std::span<float> out) const;

 private:
  Memory memory_;
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
