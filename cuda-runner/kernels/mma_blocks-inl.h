// A block of 32 columns of a tile of 32 rows, copied to shared memory, and its products by tensor cores with
// 8 rows of the batch. The bits are those of vector_product-inl.h: a sum over 32 columns is an integer and
// therefore exact, and all operations after it are the same in the same order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/quant_blocks-inl.h"

namespace runnel {

inline constexpr uint32_t kGroupRows = 8;   // rows of the batch in an operand of mma_s8
inline constexpr uint32_t kPieceWords = 4;  // words of a copy

// Words of shared memory that a block of a tile takes: codes, d and m, sub-scales.
template <TensorType kType>
struct StagedLayout {
  using Tile = QuantTileLayout<kType>;
  static constexpr uint32_t kCodes = Tile::kWords;
  static constexpr uint32_t kScales = Tile::kScales / 2;
  static constexpr uint32_t kSubScales = Tile::kSubScales / 2;
  static constexpr uint32_t kWords = kCodes + kScales + kSubScales;
  static constexpr uint32_t kPieces = kWords / kPieceWords;
};

// Where a lane finds its pieces of the blocks of a tile, one block after the other. A lane copies piece
// lane(), lane() + 32, ... of the codes, and up to one piece of scales and sub-scales.
template <TensorType kType>
class TileCursor {
 public:
  using Layout = StagedLayout<kType>;
  using Tile = QuantTileLayout<kType>;
  static constexpr uint32_t kScalePieces = (Layout::kScales + Layout::kSubScales) / kPieceWords;
  static_assert(kScalePieces <= kWarpSize);

  // Moves to a block. It is called for the first block of each segment.
  __device__ void seek(const DeviceMatrix& matrix, uint32_t tile, uint32_t block) {
    const uint32_t num_blocks = matrix.columns / kBlockColumns;
    quants_ = matrix.quants;
    scales_ = matrix.scales;
    word_ = Tile::first_word(num_blocks, tile, block) + kPieceWords * lane();
    is_of_segment_ = Tile::kHasSubScales && lane() < Layout::kScales / kPieceWords;
    constexpr uint32_t kPieceScales = 2 * kPieceWords;
    if (lane() < Layout::kScales / kPieceWords) {
      scale_ = Tile::first_scale(num_blocks, tile, block) + kPieceScales * lane();
    } else {
      scale_ = Tile::first_sub_scale(num_blocks, tile, block) + kPieceScales * lane() - Tile::kScales;
    }
  }
  // Moves on by `count` blocks of the segment.
  __device__ void advance(uint32_t count = 1) {
    word_ += count * Tile::kWords;
    scale_ += count * (Tile::kHasSubScales ? Tile::kSubScales : Tile::kScales);
  }
  // Begins the copy of this lane's pieces to memory from `to` on. d and m of a segment are copied with its
  // first block.
  template <size_t kMemoryWords>
  __device__ void copy(bool begins_segment, Shared<uint32_t, kMemoryWords>& memory, size_t to) const {
    for (uint32_t first = 0; first < Layout::kCodes; first += kWarpSize * kPieceWords) {
      if (first + kPieceWords * lane() < Layout::kCodes)
        copy_read_only_async(memory, to + first + kPieceWords * lane(), quants_, word_ + first);
    }
    if (lane() < kScalePieces && (!is_of_segment_ || begins_segment))
      copy_read_only_async(memory, to + Layout::kCodes + kPieceWords * lane(), scales_, scale_);
  }

 private:
  Global<const uint32_t> quants_;
  Global<const uint16_t> scales_;
  size_t word_;
  size_t scale_;
  bool is_of_segment_;
};

// A block of a tile in shared memory; see StoredBlock.
template <TensorType kType, size_t kMemoryWords>
class StagedBlock {
 public:
  __device__ StagedBlock(Shared<uint32_t, kMemoryWords>& memory, size_t first_word)
      : memory_(memory), first_word_(first_word) {}
  template <typename V>
  __device__ V words(uint32_t word) const {
    return memory_.template load<V>(first_word_ + word);
  }
  __device__ uint16_t scale(uint32_t index) const { return half_word(Layout::kCodes, index); }
  __device__ uint16_t sub_scales(uint32_t row) const {
    return half_word(Layout::kCodes + Layout::kScales, row);
  }

 private:
  using Layout = StagedLayout<kType>;
  __device__ uint16_t half_word(size_t first, size_t index) const {
    const uint32_t word = memory_[first_word_ + first + index / 2];
    return static_cast<uint16_t>(word >> (16 * (index % 2)));
  }

  Shared<uint32_t, kMemoryWords>& memory_;
  size_t first_word_;
};

// What a lane holds of a block of a tile: its part of two operands of mma_s8, for rows 0 to 15 and 16 to 31,
// and the scales of its four rows, lane() / 4 + 8 r.
template <TensorType kType>
struct TileFragment {
  static constexpr uint32_t kRows = 4;
  uint32_t codes[2][4];
  BlockScales<kType> scales[kRows];
};

// d and m of a lane's four rows, which types with sub-scales keep for a segment.
struct SegmentScales {
  float scale[4] = {};
  float minimum[4] = {};
};

template <TensorType kType, size_t kMemoryWords>
__device__ inline void load_fragment(Shared<uint32_t, kMemoryWords>& memory, size_t first_word,
                                     bool begins_segment, SegmentScales& segment,
                                     TileFragment<kType>& fragment) {
  using Block = StagedBlock<kType, kMemoryWords>;
  const Block block(memory, first_word);
  for (uint32_t r = 0; r < fragment.kRows; ++r) {
    const QuantBlockView<kType, Block> row(block, lane() / 4 + 8 * r);
    row.load_two(lane() % 4, fragment.codes[r / 2][r % 2], fragment.codes[r / 2][2 + r % 2]);
    if (!QuantTileLayout<kType>::kHasSubScales || begins_segment) {
      segment.scale[r] = row.stored_scale();
      segment.minimum[r] = row.stored_minimum();
    }
    fragment.scales[r] = BlockScales<kType>(segment.scale[r], segment.minimum[r], row.sub_scales());
  }
}

// What a lane holds of a block of 8 rows of the batch: its part of an operand of mma_s8, and what belongs to
// its two rows, 2 (lane() % 4) + j.
struct RowsFragment {
  uint2 bytes;    // ReadyRows::quants
  float2 scales;  // ReadyRows::scales
  uint2 extra;    // bits of what RowsExtra says
};

// The third array of ReadyRows that a type's products read, besides bytes and scales.
enum class RowsExtra { kNothing, kSums, kScaledSums, kHalfSums };

template <TensorType kType>
consteval RowsExtra rows_extra() {
  using Scales = BlockScales<kType>;
  if (Scales::kHasTwoSums) return RowsExtra::kHalfSums;
  if (Scales::kFormat.has_minimum) return RowsExtra::kScaledSums;
  return Scales::kExcess != 0 ? RowsExtra::kSums : RowsExtra::kNothing;
}

// Its bytes.
template <TensorType kType>
__device__ inline Global<const uint8_t> extra_bytes(const ReadyRows& in) {
  constexpr RowsExtra kExtra = rows_extra<kType>();
  if constexpr (kExtra == RowsExtra::kScaledSums) return in.scaled_sums.bytes();
  if constexpr (kExtra == RowsExtra::kHalfSums) return in.half_sums.bytes();
  return in.sums.bytes();
}

// Words of shared memory that a block of kColumns rows of the batch takes: bytes, scales, extra.
template <TensorType kType, uint32_t kColumns>
struct RowsLayout {
  static constexpr bool kHasExtra = rows_extra<kType>() != RowsExtra::kNothing;
  static constexpr uint32_t kScales = kColumns * kBlockColumns / 4;
  static constexpr uint32_t kExtra = kScales + kColumns;
  static constexpr uint32_t kWords = kExtra + (kHasExtra ? kColumns : 0);

  // The fragment of the eight rows from `row` on. first_word: where the block begins in memory.
  template <size_t kMemoryWords>
  __device__ static RowsFragment load(Shared<uint32_t, kMemoryWords>& memory, size_t first_word, size_t row) {
    const size_t pair = first_word + row + 2 * (lane() % 4);
    RowsFragment rows;
    rows.bytes =
        memory.template load<uint2>(first_word + (row + lane() / 4) * (kBlockColumns / 4) + 2 * (lane() % 4));
    rows.scales = memory.template load<float2>(pair + kScales);
    rows.extra = {0, 0};
    if constexpr (kHasExtra) rows.extra = memory.template load<uint2>(pair + kExtra);
    return rows;
  }
};

// acc[2 half + i / 2][i % 2] is that of the tile's row lane() / 4 + 16 half + 8 (i / 2) and of the row
// 2 (lane() % 4) + i % 2 of the eight.
template <TensorType kType>
__device__ inline void add_products(const TileFragment<kType>& weights, const RowsFragment& rows,
                                    float (&acc)[4][2]) {
  using Scales = BlockScales<kType>;
  // The bits of this float plus a number below 2^22 are its bits plus that number. So the conversion of a sum
  // to a float, which the device does at a quarter of the speed, becomes one subtraction.
  constexpr float kOffset = 12582912.0f;  // 1.5 * 2^23
  const uint32_t b[2] = {rows.bytes.x, rows.bytes.y};
  const float x_scales[2] = {rows.scales.x, rows.scales.y};
  const uint32_t extra[2] = {rows.extra.x, rows.extra.y};
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t(&a)[4] = weights.codes[half];
    if constexpr (Scales::kHasTwoSums) {
      constexpr int32_t kZeros[4] = {};
      int32_t first[4];
      int32_t second[4];
      mma_s8(first, {a[0], a[1], 0, 0}, b, kZeros);
      mma_s8(second, {0, 0, a[2], a[3]}, b, kZeros);
      for (uint32_t i = 0; i < 4; ++i) {
        const auto half_sums = static_cast<int32_t>(extra[i % 2]);
        float& to = acc[2 * half + i / 2][i % 2];
        to = weights.scales[2 * half + i / 2].add_two(to, {first[i], second[i]}, x_scales[i % 2],
                                                      {half_sum(half_sums, 0), half_sum(half_sums, 1)});
      }
    } else {
      int32_t from[4];
      int32_t sums[4];
      for (uint32_t i = 0; i < 4; ++i) {
        from[i] = std::bit_cast<int32_t>(kOffset);
        if constexpr (Scales::kExcess != 0) from[i] -= Scales::kExcess * static_cast<int32_t>(extra[i % 2]);
      }
      mma_s8(sums, a, b, from);
      for (uint32_t i = 0; i < 4; ++i) {
        float& to = acc[2 * half + i / 2][i % 2];
        to = weights.scales[2 * half + i / 2].add(to, std::bit_cast<float>(sums[i]) - kOffset,
                                                  x_scales[i % 2], std::bit_cast<float>(extra[i % 2]));
      }
    }
  }
}

}  // namespace runnel
