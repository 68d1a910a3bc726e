// Blocks of weights and of rows of the batch on their way to shared memory, and there. What is staged at once
// is kBlocks adjacent blocks of 32 columns of a segment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/quant_blocks-inl.h"

namespace runnel {

inline constexpr uint32_t kPieceWords = 4;  // words of a copy

// Words of shared memory that the blocks of a tile take: codes, d and m, sub-scales, each of all blocks.
template <TensorType kType, uint32_t kBlocks>
struct StagedLayout {
  using Tile = QuantTileLayout<kType>;
  static constexpr uint32_t kScalesOfBlock = Tile::kScales / 2;
  static constexpr uint32_t kSubScalesOfBlock = Tile::kSubScales / 2;
  static constexpr uint32_t kScalesAt = kBlocks * Tile::kWords;
  // With sub-scales d and m belong to the segment, and are there with its first blocks only.
  static constexpr uint32_t kSubScalesAt = kScalesAt + (Tile::kHasSubScales ? 1 : kBlocks) * kScalesOfBlock;
  static constexpr uint32_t kWords = kSubScalesAt + kBlocks * kSubScalesOfBlock;
};

// Where a lane finds its pieces of the blocks of a tile: pieces lane(), lane() + 32, ... of the codes, and up
// to one piece of scales and sub-scales.
template <TensorType kType, uint32_t kBlocks>
class TileCursor {
 public:
  using Layout = StagedLayout<kType, kBlocks>;
  using Tile = QuantTileLayout<kType>;

  // Moves to a block.
  __device__ void seek(const DeviceMatrix& matrix, uint32_t tile, uint32_t block) {
    const uint32_t num_blocks = matrix.columns / kBlockColumns;
    quants_ = matrix.quants;
    scales_ = matrix.scales;
    word_ = static_cast<uint32_t>(Tile::first_word(num_blocks, tile, block)) + kPieceWords * lane();
    constexpr uint32_t kPieceScales = 2 * kPieceWords;
    const uint32_t first = kPieceScales * lane();
    if (!Tile::kHasSubScales || first < Tile::kScales) {
      scale_ = static_cast<uint32_t>(Tile::first_scale(num_blocks, tile, block)) + first;
      if constexpr (Tile::kHasSubScales) scale_ += block % kSegmentBlocks * Tile::kSubScales;
    } else {
      scale_ = static_cast<uint32_t>(Tile::first_sub_scale(num_blocks, tile, block)) + first - Tile::kScales;
    }
  }
  // Moves on by `count` blocks, to a block of the same segment or to the one after its last.
  __device__ void advance(uint32_t count) {
    word_ += count * Tile::kWords;
    scale_ += count * (Tile::kHasSubScales ? Tile::kSubScales : Tile::kScales);
  }
  // From the block after the last of a segment to the first of segment `count`, counted from the next one.
  __device__ void skip_segments(uint32_t count) {
    word_ += count * kSegmentBlocks * Tile::kWords;
    scale_ += Tile::kHasSubScales ? (count + 1) * Tile::kSegmentScales - kSegmentBlocks * Tile::kSubScales
                                  : count * kSegmentBlocks * Tile::kScales;
  }
  // Begins the copy of this lane's pieces of the first num_blocks of kBlocks to memory from `to` on.
  // kIsWhole: of all of them.
  template <bool kIsWhole, size_t kMemoryWords>
  __device__ void copy(bool begins_segment, uint32_t num_blocks, Shared<uint32_t, kMemoryWords>& memory,
                       size_t to) const {
    constexpr uint32_t kPassWords = kWarpSize * kPieceWords;
    const uint32_t own = kPieceWords * lane();
    const size_t target = to + own;
    const size_t source = word_;
    for (uint32_t first = 0; first < Layout::kScalesAt; first += kPassWords) {
      const bool is_there = first + kPassWords <= Layout::kScalesAt || own < Layout::kScalesAt - first;
      if (is_there && (kIsWhole || first + own < num_blocks * Tile::kWords))
        copy_read_only_async(memory, target + first, quants_, source + first);
    }
    constexpr uint32_t kScaleWords = Layout::kWords - Layout::kScalesAt;
    const bool is_there = kScaleWords == kPassWords || own < kScaleWords;
    const bool is_new = !Tile::kHasSubScales || begins_segment || 2 * own >= Tile::kScales;
    if (is_there && is_new && (kIsWhole || scale_block() < num_blocks))
      copy_read_only_async(memory, target + Layout::kScalesAt, scales_, scale_);
  }

 private:
  static_assert(Layout::kWords - Layout::kScalesAt <= kWarpSize * kPieceWords);

  // The block that the lane's piece of scales belongs to, of those that are staged at once.
  __device__ static uint32_t scale_block() {
    const uint32_t first = 2 * kPieceWords * lane();
    if constexpr (!Tile::kHasSubScales) return first / Tile::kScales;
    return first < Tile::kScales ? 0 : (first - Tile::kScales) / kWarpTileRows;
  }

  Global<const uint32_t> quants_;
  Global<const uint16_t> scales_;
  uint32_t word_;  // DeviceWeights lets no matrix have more than 2^32 of them, to spare registers
  uint32_t scale_;
};

// Block `block` of a tile in shared memory; see StoredBlock.
template <TensorType kType, uint32_t kBlocks, size_t kMemoryWords>
class StagedBlock {
 public:
  using Layout = StagedLayout<kType, kBlocks>;
  using Tile = QuantTileLayout<kType>;

  __device__ StagedBlock(Shared<uint32_t, kMemoryWords>& memory, size_t first_word, uint32_t block)
      : memory_(memory),
        codes_(first_word + block * Tile::kWords),
        scales_(first_word + Layout::kScalesAt + (Tile::kHasSubScales ? 0 : block * Layout::kScalesOfBlock)),
        sub_scales_(first_word + Layout::kSubScalesAt + block * Layout::kSubScalesOfBlock) {}
  template <typename V>
  __device__ V words(uint32_t word) const {
    return memory_.template load<V>(codes_ + word);
  }
  __device__ uint16_t scale(uint32_t index) const { return half_word(scales_, index); }
  __device__ uint16_t sub_scales(uint32_t row) const { return half_word(sub_scales_, row); }

 private:
  __device__ uint16_t half_word(size_t first, uint32_t index) const {
    const uint32_t word = memory_[first + index / 2];
    return static_cast<uint16_t>(word >> (16 * (index % 2)));
  }

  Shared<uint32_t, kMemoryWords>& memory_;
  size_t codes_;
  size_t scales_;
  size_t sub_scales_;
};

// The third array of ReadyRows that a type's products read, besides bytes and scales.
enum class RowsExtra { kNothing, kScaledSums, kHalfSums };

template <TensorType kType>
consteval RowsExtra rows_extra() {
  using Scales = BlockScales<kType>;
  if (!Scales::kFormat.has_minimum) return RowsExtra::kNothing;
  return Scales::kHasTwoSums ? RowsExtra::kHalfSums : RowsExtra::kScaledSums;
}

// Its bytes.
template <TensorType kType>
__device__ inline Global<const uint8_t> extra_bytes(const ReadyRows& in) {
  if constexpr (rows_extra<kType>() == RowsExtra::kHalfSums) return in.half_sums.bytes();
  return in.scaled_sums.bytes();
}

// Words of shared memory that blocks of kColumns rows of the batch take: the bytes of all blocks, then for
// each block scales and extra, of four rows at least.
template <TensorType kType, uint32_t kColumns, uint32_t kBlocks>
struct RowsLayout {
  static constexpr bool kHasExtra = rows_extra<kType>() != RowsExtra::kNothing;
  static constexpr uint32_t kBytesOfBlock = kColumns * kBlockColumns / 4;
  static constexpr uint32_t kScalesOfBlock = std::max(kColumns, kPieceWords);
  static constexpr uint32_t kFactorsOfBlock = kScalesOfBlock * (kHasExtra ? 2 : 1);
  static constexpr uint32_t kFactorsAt = kBlocks * kBytesOfBlock;
  static constexpr uint32_t kWords = kFactorsAt + kBlocks * kFactorsOfBlock;

  __device__ static size_t bytes(size_t first_word, uint32_t block) {
    return first_word + block * kBytesOfBlock;
  }
  __device__ static size_t scales(size_t first_word, uint32_t block) {
    return first_word + kFactorsAt + block * kFactorsOfBlock;
  }
  __device__ static size_t extra(size_t first_word, uint32_t block) {
    return scales(first_word, block) + (kHasExtra ? kScalesOfBlock : 0);
  }
};

// Where one of a group of threads finds its pieces of blocks of rows of the batch. kThreads: of the group,
// warps that copy all bytes; the first kBlocks * kFactorPieces of them copy scales and extra.
template <TensorType kType, uint32_t kColumns, uint32_t kBlocks, uint32_t kThreads>
class RowsCursor {
 public:
  using Layout = RowsLayout<kType, kColumns, kBlocks>;

  // Moves to a block, for thread `thread` of the group.
  __device__ void seek(const ReadyRows& in, uint32_t first_row, uint32_t block, uint32_t thread) {
    bytes_of_rows_ = in.quants;
    const auto index = static_cast<uint32_t>(in.block_index(block, first_row));
    bytes_ = (index + thread / kBytePieces * in.row_capacity) * kBlockColumns + 16 * (thread % kBytePieces);
    bytes_step_ = kBlockColumns * in.row_capacity;
    const uint32_t in_block = thread % kFactorPieces;
    const bool is_extra = Layout::kHasExtra && in_block >= kFactorPieces / 2;
    factors_ = is_extra ? extra_bytes<kType>(in) : in.scales.bytes();
    factor_byte_ = 4 * (index + thread / kFactorPieces * in.row_capacity) +
                   16 * (is_extra ? in_block - kFactorPieces / 2 : in_block);
  }
  // Moves on by `count` blocks.
  __device__ void advance(uint32_t count) {
    bytes_ += count * bytes_step_;
    factor_byte_ += count * (bytes_step_ / 8);
  }
  // Begins the copy of the thread's pieces of the first num_blocks of kBlocks to memory from `to` on.
  // kIsWhole: of all of them.
  template <bool kIsWhole, size_t kMemoryWords>
  __device__ void copy(uint32_t num_blocks, uint32_t thread, Shared<uint32_t, kMemoryWords>& memory,
                       size_t to) const {
    const size_t target = to + kPieceWords * thread;
    const size_t source = bytes_;
    constexpr uint32_t kPieces = kBlocks * kBytePieces;
    for (uint32_t first = 0; first < kPieces; first += kThreads) {
      const bool is_there = first + kThreads <= kPieces || thread < kPieces - first;
      if (is_there && (kIsWhole || (first + thread) / kBytePieces < num_blocks))
        copy_async(memory, target + kPieceWords * first, bytes_of_rows_,
                   source + size_t{first / kBytePieces} * bytes_step_ + 16 * (first % kBytePieces));
    }
    constexpr uint32_t kFactors = kBlocks * kFactorPieces;
    const bool is_there = kFactors == kThreads || thread < kFactors;
    if (is_there && (kIsWhole || thread / kFactorPieces < num_blocks))
      copy_async(memory, target + Layout::kFactorsAt, factors_, factor_byte_);
  }

 private:
  static constexpr uint32_t kBytePieces = Layout::kBytesOfBlock / kPieceWords;
  static constexpr uint32_t kFactorPieces = Layout::kFactorsOfBlock / kPieceWords;
  // A pass is of whole blocks, or a block of whole passes.
  static_assert(kThreads % kBytePieces == 0 || kBytePieces % kThreads == 0);
  static_assert(kBlocks * kFactorPieces <= kThreads);

  Global<int8_t> bytes_of_rows_;
  Global<const uint8_t> factors_;
  uint32_t bytes_;  // of a step's rows, which take less than 4 GiB (DeviceActivation)
  uint32_t factor_byte_;
  uint32_t bytes_step_;
};

}  // namespace runnel
