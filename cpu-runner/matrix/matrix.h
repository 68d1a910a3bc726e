// Weights in the layout that products read. A matrix of the file is laid out again in tiles of 32 rows, so
// that a vector holds the same column of neighbouring rows and no sum crosses lanes. The last tile is filled
// up with rows of zeros.
//
//   tile        segments of 256 columns, in order; the last may be shorter
//   segment     quantised types: blocks of 32 columns, in order; before them the scales and minima of the
//               segment, if the type has them once a segment. Floats: values
//   block       scales and minima, or sub-scales and sub-minima, if the type has them; then words
//   scales      32 halves, one for each row; minima have the same form
//   sub-scales  32 bytes, one for each row, or two for each; sub-minima have the same form, or lie in the
//               high halves of these bytes (pack_sub_scales)
//   words       the words of the block's codes (QuantFormat), in order, each as one word for each row
//   values      column by column, one value for each row
//
// So a product reads a tile from front to back. The layout takes about as many bytes as the file, apart from
// the rows of zeros and sub-scales of 6 bits, which take a byte. Words begin at multiples of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/kernels/product.h"
#include "cpu-runner/matrix/weight_arena.h"
#include "cpu-runner/thread_pool.h"
#include "runner/formats/tensor.h"
#include "runner/result.h"

namespace runnel {

class TiledMatrix {
 public:
  // Bytes that from_tensor takes of the arena. Reads no values. Fails as it does.
  static Result<uint64_t> bytes_of(const TensorView& tensor);
  // Copies the tensor, which has two dimensions and sections of whole tiles, into the arena, which must
  // outlive this, unless it is there already. Each node packs the tiles that it has (node_parts.h). Fails
  // with kBadModel for other shapes and as WeightArena::take() does.
  static Result<TiledMatrix> from_tensor(const TensorView& tensor, WeightArena& arena, ThreadPool& threads);

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return weights_.columns; }
  uint32_t num_tiles() const { return (rows_ + kTileRows - 1) / kTileRows; }
  const TiledWeights& weights() const { return weights_; }

  // Writes one row as floats to out, which has columns() entries. The values are those of dequantize_row.
  void copy_row(uint32_t row, std::span<float> out) const;

 private:
  TiledWeights weights_{};
  uint32_t rows_ = 0;
};

// Matrices of equal columns that are multiplied as one, stacked by rows. Each part begins with a tile of its
// own and has a type of its own.
struct StackedMatrix {
  std::vector<TiledMatrix> parts;

  uint32_t columns() const { return parts.front().columns(); }
  uint32_t rows() const;
};

}  // namespace runnel
