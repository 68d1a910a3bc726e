// The product of four tiles of 32 rows of quantised matrices and 64 rows of the batch, by tensor cores, for
// steps that wait for arithmetic. Each of 8 warps takes one tile and 32 rows of the batch. Weights and rows
// go through a ring in shared memory that the warps share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/mma_blocks-inl.h"

namespace runnel {

// kSplit: 2 is for grids of few blocks. It takes 64 rows of the batch, 32 a warp, and has twice as many
// warps, of which the second half takes every second segment of 256 columns. Its warps have half as many
// registers.
template <TensorType kType, uint32_t kSplitOf>
struct TileProduct {
  static constexpr uint32_t kSplit = kSplitOf;
  static constexpr uint32_t kTiles = 4;
  // Types whose scales take more registers than are left have half as many sums.
  static constexpr bool kHasTwoSums = BlockScales<kType>::kHasTwoSums;
  static constexpr bool kHasManyScales = kSplit == 1 ? kHasTwoSums && BlockScales<kType>::kFormat.has_minimum
                                                     : kHasTwoSums || QuantTileLayout<kType>::kHasSubScales;
  static constexpr uint32_t kWarpColumns = 64 / kSplit / (kHasManyScales ? 2 : 1);
  static constexpr uint32_t kColumns = 2 * kWarpColumns;
  static constexpr uint32_t kGroups = kWarpColumns / kGroupRows;
  static constexpr uint32_t kHalfThreads = 8 * kWarpSize;
  static constexpr uint32_t kMaxThreads = kSplit * kHalfThreads;
  static constexpr uint32_t kMinBlocks = 1;  // 255 registers for 8 warps, 128 for 16
  // A stage has two blocks, so that threads meet half as often, and warps copy one block of a tile each.
  static constexpr uint32_t kStageBlocks = 2;

  using Weights = StagedLayout<kType, 1>;
  using Rows = RowsLayout<kType, kColumns, kStageBlocks>;
  static constexpr uint32_t kRowsAt = kStageBlocks * kTiles * Weights::kWords;
  static constexpr uint32_t kStageWords = kRowsAt + Rows::kWords;
  static constexpr uint32_t kMaxRingBytes = (kSplit == 1 ? 64 : 48) * 1024;  // of each half
  static constexpr uint32_t kStages = std::min(4u, kMaxRingBytes / 4 / kStageWords);
  static_assert(kStages >= 3);
  static constexpr uint32_t kRingWords = kStages * kStageWords;  // of each half of the warps
  // Results, and sums of the second half, are (tile, row of the batch, row of the tile), with this stride.
  static constexpr uint32_t kResultStride = 36;
  static constexpr uint32_t kResults = kTiles * kColumns * kResultStride;

  // With one half, results take the place of the ring.
  struct Memory {
    static constexpr size_t kRings =
        kSplit == 1 ? std::max<size_t>(kRingWords, kResults) : kSplit * kRingWords;
    static constexpr size_t kExchange = kSplit == 1 ? 0 : kResults;
    static constexpr uint32_t kBytes = 4 * (kRings + kExchange);
    Shared<uint32_t, kRings + kExchange> words;
  };
  static constexpr size_t kFirstResult = kSplit == 1 ? 0 : Memory::kRings;

  // The tiles of a block: two of each matrix, which may be the same one. Beyond the last tile of a matrix
  // they are its last, and their results have no meaning.
  struct Tiles {
    const DeviceMatrix& first;
    const DeviceMatrix& second;
    uint32_t first_tile;
    uint32_t second_tile;
  };

  // What a thread copies: with its warp, every second block of one tile; with its half, the rows of the
  // batch.
  class Cursor {
   public:
    __device__ Cursor(const Tiles& tiles, const ReadyRows& in, uint32_t first_row)
        : tiles_(tiles), in_(in), first_row_(first_row), num_blocks_(tiles.first.columns / kBlockColumns) {
      seek(half() * kSegmentBlocks);
    }

    // Begins the copy of a stage, and moves to the next.
    __device__ void copy_next(Memory& memory, size_t to) {
      const uint32_t tile_block = block_ + warp_of_half() % kStageBlocks;
      if (tile_block < num_blocks_)
        weights_.copy(tile_block % kSegmentBlocks == 0, 1, memory.words,
                      to + warp_of_half() * Weights::kWords);
      if (block_ < num_blocks_)
        rows_.copy(num_blocks_ - block_, thread_of_half(), memory.words, to + kRowsAt);
      block_ += kStageBlocks;
      if (block_ % kSegmentBlocks == 0) {
        seek(block_ + (kSplit - 1) * kSegmentBlocks);
      } else {
        weights_.advance(kStageBlocks);
        rows_.advance(kStageBlocks);
      }
    }

   private:
    __device__ void seek(uint32_t block) {
      block_ = block;
      const uint32_t index = warp_of_half() / kStageBlocks;
      const uint32_t num_tiles = (tiles_.first.rows + kWarpTileRows - 1) / kWarpTileRows;
      const uint32_t tile =
          std::min((index < 2 ? tiles_.first_tile : tiles_.second_tile) + index % 2, num_tiles - 1);
      const uint32_t tile_block = block + warp_of_half() % kStageBlocks;
      if (index < 2) {
        weights_.seek(tiles_.first, tile, tile_block);
      } else {
        weights_.seek(tiles_.second, tile, tile_block);
      }
      rows_.seek(in_, first_row_, block, thread_of_half());
    }

    const Tiles& tiles_;
    const ReadyRows& in_;
    const uint32_t first_row_;
    const uint32_t num_blocks_;
    uint32_t block_;  // the first of the next stage
    TileCursor<kType, 1> weights_;
    RowsCursor<kType, kColumns, kStageBlocks, kHalfThreads> rows_;
  };

  // When it returns, result() has the products, for all threads. All threads of the block must call it.
  __device__ static void compute(const Tiles& tiles, const ReadyRows& in, uint32_t first_row,
                                 Memory& memory) {
    wait_for_previous();
    const uint32_t num_blocks = tiles.first.columns / kBlockColumns;
    Cursor cursor(tiles, in, first_row);
    const size_t ring = half() * kRingWords;
    for (uint32_t stage = 0; stage + 1 < kStages; ++stage) {
      cursor.copy_next(memory, ring + stage * kStageWords);
      commit_copies();
    }
    float total[kGroups][4][2] = {};
    uint32_t slot = 0;
    for (uint32_t round = 0; round < num_blocks; round += kSplit * kSegmentBlocks) {
      const uint32_t begin = round + half() * kSegmentBlocks;
      float acc[kGroups][4][2] = {};
      SegmentScales scales;
      // Both halves go through the stages together, since their threads meet.
      for (uint32_t b = 0; b < kSegmentBlocks && round + b < num_blocks; b += kStageBlocks) {
        wait_copies<kStages - 2>();
        sync_block();
        // To where the stage before this one was, which all threads have read.
        const uint32_t free_slot = slot == 0 ? kStages - 1 : slot - 1;
        cursor.copy_next(memory, ring + free_slot * kStageWords);
        commit_copies();
        const size_t first_word = ring + slot * kStageWords;
        if (begin + b < num_blocks) add_block(memory, first_word, 0, b == 0, scales, acc);
        if (begin + b + 1 < num_blocks) add_block(memory, first_word, 1, false, scales, acc);
        slot = slot + 1 == kStages ? 0 : slot + 1;
      }
      add_in_order(acc, round + kSegmentBlocks < num_blocks, memory, total);
    }
    wait_copies<0>();
    sync_block();
    if (half() == 0) store(total, memory);
    sync_block();
  }

  // The product of row lane() of the block's tile `tile` and row first_row + `row` of the batch.
  __device__ static float result(Memory& memory, uint32_t tile, uint32_t row) {
    const uint32_t bits = memory.words[kFirstResult + (tile * kColumns + row) * kResultStride + lane()];
    return std::bit_cast<float>(bits);
  }

 private:
  __device__ static uint32_t half() { return threadIdx.x / kHalfThreads; }
  __device__ static uint32_t thread_of_half() { return threadIdx.x % kHalfThreads; }
  __device__ static uint32_t warp_of_half() { return warp() % 8; }

  __device__ static void add_block(Memory& memory, size_t stage, uint32_t b, bool begins_segment,
                                   SegmentScales& scales, float (&acc)[kGroups][4][2]) {
    const uint32_t place = warp_of_half() / 2 * kStageBlocks + b;
    const StagedBlock<kType, 1, Memory::kRings + Memory::kExchange> block(memory.words,
                                                                          stage + place * Weights::kWords, 0);
    const TileFragment<kType> weights = load_fragment(block, begins_segment, scales);
    for (uint32_t group = 0; group < kGroups; ++group) {
      const uint32_t row = warp() % 2 * kWarpColumns + group * kGroupRows;
      add_products(weights, load_rows<Rows>(memory.words, stage + kRowsAt, b, row), acc[group]);
    }
  }

  // Adds the sums of a segment of each half to the totals, which the first half has.
  __device__ static void add_in_order(const float (&acc)[kGroups][4][2], bool second_has_segment,
                                      Memory& memory, float (&total)[kGroups][4][2]) {
    if constexpr (kSplit > 1) {
      if (half() == 1) store(acc, memory);
      sync_block();
    }
    if (half() != 0) return;
    for (uint32_t group = 0; group < kGroups; ++group) {
      for (uint32_t i = 0; i < 8; ++i) {
        float& to = total[group][i / 2][i % 2];
        to = to + acc[group][i / 2][i % 2];
        if (kSplit > 1 && second_has_segment) {
          const uint32_t bits = memory.words[place(group, i)];
          to = to + std::bit_cast<float>(bits);
        }
      }
    }
  }
  __device__ static void store(const float (&from)[kGroups][4][2], Memory& memory) {
    for (uint32_t group = 0; group < kGroups; ++group)
      for (uint32_t i = 0; i < 8; ++i)
        memory.words[place(group, i)] = std::bit_cast<uint32_t>(from[group][i / 2][i % 2]);
  }
  // Where element i of a group of this lane's sums is in memory.
  __device__ static size_t place(uint32_t group, uint32_t i) {
    const uint32_t row = warp() % 2 * kWarpColumns + group * kGroupRows + 2 * (lane() % 4) + i % 2;
    return kFirstResult + (warp_of_half() / 2 * kColumns + row) * kResultStride + lane() / 4 + 8 * (i / 2);
  }
};

}  // namespace runnel
