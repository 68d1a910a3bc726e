// Stages of float weights and rows of the batch, on their way to shared memory and there. A stage is 16
// columns of some tiles of a matrix and of some rows of the batch, which a group of warps multiplies.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/product_variants.h"

namespace runnel {

template <TensorType kType, uint32_t kTilesOf, uint32_t kColumnsOf>
struct FloatStageLayout {
  static constexpr uint32_t kStageColumns = 16;
  // Floats from a row of a matrix or of the batch to the next. A quarter of a warp reads pieces of adjacent
  // rows; this is an odd number of pieces, so that they are in different banks.
  static constexpr uint32_t kStride = kStageColumns + 4;
  static constexpr uint32_t kTiles = kTilesOf;
  static constexpr uint32_t kColumns = kColumnsOf;  // rows of the batch
  static constexpr uint32_t kMatrixRows = kTiles * kWarpTileRows;
  // Weights of two bytes are copied as they are, (tile, piece, row), and then widened: once for all threads
  // that use them. Those of F32 are copied to where they are used.
  static constexpr bool kIsWidened = kType != TensorType::kF32;
  static constexpr uint32_t kPieceColumns = kIsWidened ? 8 : 4;
  static constexpr uint32_t kPieces = kStageColumns / kPieceColumns;  // of a row
  static constexpr uint32_t kWeights = kMatrixRows * kStride;         // floats of weights in use
  // Floats of a stage: weights as they were copied, then rows of the batch.
  static constexpr uint32_t kRowsAt = kIsWidened ? kMatrixRows * kStageColumns / 2 : kWeights;
  static constexpr uint32_t kFloats = kRowsAt + kColumns * kStride;
};

// What a thread of a group of kWarps warps copies and widens. Where columns end within a stage, weights
// beyond the last piece are zeros, as the rows of the batch are.
template <TensorType kType, uint32_t kTiles, uint32_t kColumns, uint32_t kWarps>
class FloatStager {
 public:
  using Layout = FloatStageLayout<kType, kTiles, kColumns>;

  __device__ FloatStager(const BlockTiles& tiles, const ReadyRows& in, uint32_t first_row, uint32_t num_rows)
      : num_pieces_((tiles.first.columns + Layout::kPieceColumns - 1) / Layout::kPieceColumns),
        values_(in.values) {
    const uint32_t num_tiles = (tiles.first.rows + kWarpTileRows - 1) / kWarpTileRows;
    for (uint32_t i = 0; i < kTilesOfWarp; ++i) {
      const uint32_t tile = unit(kUnitsOfTile * i) / Layout::kPieces;
      const bool is_first = kTiles == 1 || tile < kTiles / 2;
      const uint32_t tile_of_matrix =
          is_first ? tiles.first_tile + tile : tiles.second_tile + tile - kTiles / 2;
      quants_[i] = is_first ? tiles.first.quants : tiles.second.quants;
      words_[i] =
          piece_words(std::min(tile_of_matrix, num_tiles - 1) * num_pieces_ + first_piece()) + 4 * lane();
    }
    for (uint32_t i = 0; i < kRowUnits; ++i)
      rows_[i] = std::min(first_row + row_of(i), num_rows - 1) * in.stride + 4 * (lane() / 8);
  }

  // Begin to copy this thread's part of the stage that begins with a column to memory from `to` on. There
  // must be such a column.
  template <size_t kFloats>
  __device__ void copy_weights(uint32_t column, Shared<float, kFloats>& memory, size_t to) const {
    const uint32_t piece = column / Layout::kPieceColumns;
    for (uint32_t i = 0; i < kUnits; ++i) {
      const uint32_t later = i % kUnitsOfTile;
      const size_t place = to + (Layout::kIsWidened ? copied_place(i) : place_in_use(i));
      if (piece + first_piece() + later < num_pieces_) {
        copy_read_only_async(memory, place, quants_[i / kUnitsOfTile],
                             words_[i / kUnitsOfTile] + piece_words(piece + later));
      } else {
        memory.template store<uint4>(place, make_uint4(0, 0, 0, 0));
      }
    }
  }
  template <size_t kFloats>
  __device__ void copy_rows(uint32_t column, Shared<float, kFloats>& memory, size_t to) const {
    for (uint32_t i = 0; i < kRowUnits; ++i)
      copy_async(memory, to + Layout::kRowsAt + row_of(i) * Layout::kStride + 4 * (lane() / 8), values_,
                 rows_[i] + column);
  }

  // Widens the weights of a stage that this thread has copied.
  template <size_t kFloats>
  __device__ static void widen(Shared<float, kFloats>& memory, size_t stage, size_t to) {
    for (uint32_t i = 0; i < kUnits; ++i) {
      const auto bits = memory.template load<uint4>(stage + copied_place(i));
      const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
      for (uint32_t half = 0; half < 2; ++half) {
        const float4 wide{widened(words[2 * half], 0), widened(words[2 * half], 1),
                          widened(words[2 * half + 1], 0), widened(words[2 * half + 1], 1)};
        memory.template store<float4>(to + place_in_use(i) + 4 * half, wide);
      }
    }
  }

 private:
  // A warp copies a piece of the 32 rows of a tile at a time, kUnits of them, and kRowUnits times 16 columns
  // of eight rows of the batch.
  static constexpr uint32_t kUnits = kTiles * Layout::kPieces / kWarps;
  static constexpr uint32_t kUnitsOfTile = std::min(kUnits, Layout::kPieces);
  static constexpr uint32_t kTilesOfWarp = kUnits / kUnitsOfTile;
  static constexpr uint32_t kRowUnits = kColumns / 8 / kWarps;
  static_assert(kUnits * kWarps == kTiles * Layout::kPieces && kRowUnits * kWarps * 8 == kColumns);

  __device__ static uint32_t unit(uint32_t i) { return warp() % kWarps * kUnits + i; }
  __device__ static uint32_t first_piece() { return unit(0) % Layout::kPieces; }
  __device__ static uint32_t piece_words(uint32_t pieces) { return pieces * kWarpTileRows * 4; }
  __device__ static uint32_t row_of(uint32_t i) { return 8 * (warp() % kWarps + kWarps * i) + lane() % 8; }
  __device__ static uint32_t copied_place(uint32_t i) { return 4 * (unit(i) * kWarpSize + lane()); }
  __device__ static uint32_t place_in_use(uint32_t i) {
    return (unit(i) / Layout::kPieces * kWarpTileRows + lane()) * Layout::kStride +
           Layout::kPieceColumns * (unit(i) % Layout::kPieces);
  }
  __device__ static float widened(uint32_t word, uint32_t half) {
    if constexpr (kType == TensorType::kF16) {
      return from_half(static_cast<uint16_t>(word >> (16 * half)));
    } else {
      return std::bit_cast<float>(half == 0 ? word << 16 : word & 0xffff0000);
    }
  }

  const uint32_t num_pieces_;
  Global<float> values_;
  Global<const uint32_t> quants_[kTilesOfWarp];
  // Where this thread's tiles and rows of the batch begin. DeviceWeights lets no matrix have more than 2^32
  // words, and DeviceActivation no step as many values.
  uint32_t words_[kTilesOfWarp];
  uint32_t rows_[kRowUnits];
};

}  // namespace runnel
