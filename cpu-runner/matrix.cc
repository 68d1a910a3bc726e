#include "cpu-runner/matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <type_traits>

#include "runner/check.h"
#include "runner/formats/dequantize.h"
#include "runner/formats/quoted.h"

namespace runnel {
namespace {

constexpr size_t kMaxBlockBytes = 34;  // of the file: Q8_0's

// Calls copy(offset in the tile, offset in the file's block, constant size) for each piece of a block of one
// row: its halves and the words of its quants.
template <TensorType kType, typename Copy>
void for_each_piece(const TiledWeights& weights, size_t block, size_t row_in_tile, const Copy& copy) {
  constexpr size_t kHalfBytes = sizeof(uint16_t);
  constexpr size_t kWordBytes = sizeof(uint32_t);
  constexpr size_t kNumHalves = kType == TensorType::kQ4_1 ? 2 : 1;
  constexpr size_t kNumWords = kType == TensorType::kQ8_0 ? 8 : 4;
  for (size_t i = 0; i < kNumHalves; ++i) {
    const size_t plane = i * weights.minima_offset;
    copy(plane + (block * kTileRows + row_in_tile) * kHalfBytes, i * kHalfBytes,
         std::integral_constant<size_t, kHalfBytes>());
  }
  for (size_t i = 0; i < kNumWords; ++i) {
    const size_t word = (block * kNumWords + i) * kTileRows + row_in_tile;
    copy(weights.weights_offset + word * kWordBytes, kNumHalves * kHalfBytes + i * kWordBytes,
         std::integral_constant<size_t, kWordBytes>());
  }
}

// Fn is called with the type as a constant: whatever depends on it is decided once.
template <typename Fn>
void with_quantised_type(TensorType type, const Fn& fn) {
  switch (type) {
    case TensorType::kQ4_0:
      return fn(std::integral_constant<TensorType, TensorType::kQ4_0>());
    case TensorType::kQ4_1:
      return fn(std::integral_constant<TensorType, TensorType::kQ4_1>());
    case TensorType::kQ8_0:
      return fn(std::integral_constant<TensorType, TensorType::kQ8_0>());
    case TensorType::kF32:
    case TensorType::kF16:
      break;
  }
  CHECK(!"a tile of floats has no blocks");
}

// rows: of the file, from the tile's first on.
template <TensorType kType>
void place_blocks(const TiledWeights& weights, const std::byte* rows, size_t row_bytes, uint32_t num_rows,
                  std::byte* tile) {
  const size_t block_size = block_bytes(kType);
  for (size_t block = 0; block < weights.columns / kBlockColumns; ++block) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      const std::byte* from = rows + row * row_bytes + block * block_size;
      for_each_piece<kType>(weights, block, row, [&](size_t in_tile, size_t in_block, auto size) {
        std::memcpy(tile + in_tile, from + in_block, size);
      });
    }
  }
}

void place_values(const TiledWeights& weights, const std::byte* rows, size_t row_bytes, uint32_t num_rows,
                  std::byte* tile) {
  const size_t value_bytes = block_bytes(weights.type);
  for (size_t k = 0; k < weights.columns; ++k) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      std::memcpy(tile + (k * kTileRows + row) * value_bytes, rows + row * row_bytes + k * value_bytes,
                  value_bytes);
    }
  }
}

// The layout of matrix.h.
TiledWeights layout_of(TensorType type, uint32_t columns) {
  const size_t row_bytes = size_t{columns} / block_weights(type) * block_bytes(type);
  const size_t plane_bytes = is_quantised(type) ? columns / kBlockColumns * kTileRows * sizeof(uint16_t) : 0;
  const size_t num_planes = type == TensorType::kQ4_1 ? 2 : 1;
  return {.type = type,
          .tiles = nullptr,
          .tile_bytes = row_bytes * kTileRows,
          .minima_offset = plane_bytes,
          .weights_offset = num_planes * plane_bytes,
          .columns = columns};
}

}  // namespace

uint32_t StackedMatrix::rows() const {
  uint32_t sum = 0;
  for (const TiledMatrix& part : parts) sum += part.rows();
  return sum;
}

Result<TiledMatrix> TiledMatrix::from_tensor(const TensorView& tensor, WeightArena& arena,
                                             ThreadPool& threads) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 30;  // of either side: indices stay in 32 bits
  if (tensor.num_dims != 2 || tensor.rows() > kMaxSize || tensor.columns() > kMaxSize) {
    return Error{ExitCode::kBadModel,
                 "tensor " + quoted(tensor.name) + " is no matrix of a size that can be multiplied."};
  }
  TiledMatrix matrix;
  matrix.rows_ = static_cast<uint32_t>(tensor.rows());
  matrix.weights_ = layout_of(tensor.type, static_cast<uint32_t>(tensor.columns()));
  const TiledWeights& weights = matrix.weights_;
  const size_t row_bytes = weights.tile_bytes / kTileRows;
  CHECK(tensor.data.size() == row_bytes * matrix.rows_);
  const Result<std::byte*> tiles =
      arena.take(weights.tile_bytes * matrix.num_tiles(), "tensor " + quoted(tensor.name));
  if (!tiles) return tiles.error();
  matrix.weights_.tiles = *tiles;

  threads.parallel_for(matrix.num_tiles(), [&](uint32_t tile) {
    const uint32_t first = tile * kTileRows;
    const uint32_t num_rows = std::min(kTileRows, matrix.rows_ - first);
    const std::byte* rows = tensor.data.data() + first * row_bytes;
    std::byte* to = *tiles + tile * weights.tile_bytes;
    if (!is_quantised(weights.type)) return place_values(weights, rows, row_bytes, num_rows, to);
    with_quantised_type(weights.type,
                        [&](auto type) { place_blocks<type>(weights, rows, row_bytes, num_rows, to); });
  });
  return matrix;
}

void TiledMatrix::copy_row(uint32_t row, std::span<float> out) const {
  CHECK(row < rows_ && out.size() == columns());
  const std::byte* tile = weights_.tiles + row / kTileRows * weights_.tile_bytes;
  const size_t row_in_tile = row % kTileRows;
  if (!is_quantised(weights_.type)) {
    const size_t value_bytes = block_bytes(weights_.type);
    for (size_t k = 0; k < columns(); ++k) {
      const std::byte* value = tile + (k * kTileRows + row_in_tile) * value_bytes;
      dequantize_row(weights_.type, {value, value_bytes}, out.subspan(k, 1));
    }
    return;
  }
  with_quantised_type(weights_.type, [&](auto type) {
    std::array<std::byte, kMaxBlockBytes> file_block;
    for (size_t block = 0; block < columns() / kBlockColumns; ++block) {
      for_each_piece<type>(weights_, block, row_in_tile, [&](size_t in_tile, size_t in_block, auto size) {
        std::memcpy(file_block.data() + in_block, tile + in_tile, size);
      });
      dequantize_row(type, std::span(file_block).first(block_bytes(type)),
                     out.subspan(block * kBlockColumns, kBlockColumns));
    }
  });
}

}  // namespace runnel
