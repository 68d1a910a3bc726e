// The product of some tiles of 32 rows of quantised matrices and several groups of 8 rows of the batch, by
// tensor cores. Weights and rows go through rings in shared memory that warps share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/mma_blocks-inl.h"
#include "cuda-runner/kernels/product_variants.h"

namespace runnel {

// How the warps of a block share its work.
struct TileShape {
  uint32_t parts;         // of the warps, which take segments of 256 columns in turn
  uint32_t tiles;         // of the block
  uint32_t column_warps;  // warps of a part that share a tile
  uint32_t groups;        // groups of 8 rows of the batch of a warp
  uint32_t blocks;        // that a multiprocessor has room for
};

template <TensorType kType, TileShape kShape>
struct TileProduct {
  static constexpr ProductKind kKind = ProductKind::kTiles;
  static constexpr bool kHasShortEnd = false;
  static constexpr uint32_t kParts = kShape.parts;
  static constexpr uint32_t kTiles = kShape.tiles;
  static constexpr uint32_t kColumnWarps = kShape.column_warps;
  // Types whose scales and codes take more registers than are left have half as many sums.
  static constexpr bool kIsLarge =
      BlockScales<kType>::kHasTwoSums ||
      (QuantTileLayout<kType>::kHasSubScales && QuantTileLayout<kType>::kHighBits > 0);
  static constexpr uint32_t kGroups = kShape.groups / (kIsLarge ? 2 : 1);
  static constexpr uint32_t kWarpColumns = kGroups * kGroupRows;
  static constexpr uint32_t kColumns = kColumnWarps * kWarpColumns;
  static constexpr uint32_t kPartWarps = kTiles * kColumnWarps;
  static constexpr uint32_t kPartThreads = kPartWarps * kWarpSize;
  static constexpr uint32_t kMaxThreads = kParts * kPartThreads;
  // Results, and sums of the parts but the first, are (tile, row of the batch, row of the tile), with this
  // stride.
  static constexpr uint32_t kResultStride = 36;
  static constexpr uint32_t kResults = kTiles * kColumns * kResultStride;
  static constexpr uint32_t kSums = (kParts - 1) * kResults;
  static constexpr uint32_t kTotals = kPartThreads * kGroups * 8;

  // The warps that share a tile copy as many blocks of it each.
  template <uint32_t kCount>
  static constexpr uint32_t kWordsOf = kPartWarps* StagedLayout<kType, kCount / kColumnWarps>::kWords +
                                       RowsLayout<kType, kColumns, kCount>::kWords;
  // Words of a ring, if a multiprocessor has room for so many blocks.
  static constexpr uint32_t ring_words(uint32_t blocks) {
    return ((227 / blocks - 1) * 256 - kSums - kTotals) / kParts;
  }
  // Types of more bits have one block less.
  static constexpr uint32_t kMinBlocks =
      kShape.blocks - (3 * kWordsOf<2> <= ring_words(kShape.blocks) ? 0 : 1);
  static constexpr uint32_t kMaxRingWords = ring_words(kMinBlocks);
  // A stage has four blocks where three stages have room, so that threads meet half as often.
  static constexpr uint32_t kStageBlocks = 3 * kWordsOf<4> <= kMaxRingWords ? 4 : 2;
  static constexpr uint32_t kOwnBlocks = kStageBlocks / kColumnWarps;

  using Weights = StagedLayout<kType, kOwnBlocks>;
  using Rows = RowsLayout<kType, kColumns, kStageBlocks>;
  static constexpr uint32_t kRowsAt = kPartWarps * Weights::kWords;
  static constexpr uint32_t kStageWords = kWordsOf<kStageBlocks>;
  static constexpr uint32_t kStages = std::min(4u, kMaxRingWords / kStageWords);
  static_assert(kStages >= 3);
  static constexpr uint32_t kRingWords = kStages * kStageWords;  // of each part of the warps

  // With one part, results take the place of the ring.
  struct Memory {
    static constexpr size_t kRings = kParts * kRingWords;
    static constexpr size_t kWords =
        kTotals + (kParts == 1 ? std::max<size_t>(kRings, kResults) : kRings + kSums);
    static constexpr uint32_t kBytes = 4 * kWords;
    Shared<uint32_t, kWords> words;
  };
  static constexpr size_t kFirstResult = kParts == 1 ? 0 : Memory::kRings;
  static constexpr size_t kFirstTotal = Memory::kWords - kTotals;

  // What a thread copies: with its warp, blocks of one tile; with its part, the rows of the batch.
  class Cursor {
   public:
    __device__ Cursor(const BlockTiles& tiles, const ReadyRows& in, uint32_t first_row)
        : num_blocks_(tiles.first.columns / kBlockColumns), block_(part() * kSegmentBlocks) {
      constexpr uint32_t kOfFirst = (kTiles + 1) / 2;
      const uint32_t index = warp_of_part() / kColumnWarps;
      const bool is_of_first = index < kOfFirst;
      const uint32_t num_tiles = (tiles.first.rows + kWarpTileRows - 1) / kWarpTileRows;
      const uint32_t tile = is_of_first ? tiles.first_tile + index : tiles.second_tile + index - kOfFirst;
      weights_.seek(is_of_first ? tiles.first : tiles.second, std::min(tile, num_tiles - 1), own_block());
      rows_.seek(in, first_row, block_, thread_of_part());
    }

    // Begins the copy of a stage from word `to` on.
    template <bool kHasWeights, bool kHasRows>
    __device__ void copy(Memory& memory, size_t to) const {
      if (block_ + kStageBlocks <= num_blocks_) {
        copy_blocks<true, kHasWeights, kHasRows>(memory, to);
      } else if (block_ < num_blocks_) {
        copy_blocks<false, kHasWeights, kHasRows>(memory, to);
      }
    }
    __device__ void advance() {
      block_ += kStageBlocks;
      weights_.advance(kStageBlocks);
      rows_.advance(kStageBlocks);
      if (block_ % kSegmentBlocks != 0) return;
      constexpr uint32_t kOthers = kParts - 1;
      block_ += kOthers * kSegmentBlocks;
      weights_.skip_segments(kOthers);
      rows_.advance(kOthers * kSegmentBlocks);
    }

   private:
    template <bool kIsWhole, bool kHasWeights, bool kHasRows>
    __device__ void copy_blocks(Memory& memory, size_t to) const {
      const uint32_t own = own_block();
      if (kHasWeights && (kIsWhole || own < num_blocks_))
        weights_.template copy<kIsWhole>(own % kSegmentBlocks == 0, num_blocks_ - own, memory.words,
                                         to + warp_of_part() * Weights::kWords);
      if (kHasRows)
        rows_.template copy<kIsWhole>(num_blocks_ - block_, thread_of_part(), memory.words, to + kRowsAt);
    }
    // The first of the warp's own blocks.
    __device__ uint32_t own_block() const { return block_ + warp_of_part() % kColumnWarps * kOwnBlocks; }

    const uint32_t num_blocks_;
    uint32_t block_;  // the first of the next stage
    TileCursor<kType, kOwnBlocks> weights_;
    RowsCursor<kType, kColumns, kStageBlocks, kPartThreads> rows_;
  };

  // When it returns, result() has the products, for all threads. All threads of the block must call it. Rows
  // beyond the batch's are those that memory for ready rows has beyond it (kRowGroup).
  __device__ static void compute(const BlockTiles& tiles, const ReadyRows& in, uint32_t first_row, uint32_t,
                                 Memory& memory) {
    const uint32_t num_blocks = tiles.first.columns / kBlockColumns;
    const size_t ring = part() * kRingWords;
    const size_t ring_end = ring + kRingWords;
    Cursor cursor(tiles, in, first_row);
    // Weights need not wait for the launch before this one.
    Cursor ahead = cursor;
    for (uint32_t stage = 0; stage + 1 < kStages; ++stage) {
      ahead.template copy<true, false>(memory, ring + stage * kStageWords);
      ahead.advance();
    }
    wait_for_previous();
    for (uint32_t stage = 0; stage + 1 < kStages; ++stage) {
      cursor.template copy<false, true>(memory, ring + stage * kStageWords);
      cursor.advance();
      commit_copies();
    }
    const FragmentPlace<kType, kOwnBlocks> weights_place(warp_of_part() / kColumnWarps * kColumnWarps *
                                                         Weights::kWords);
    const RowsPlace<Rows> rows_place(kRowsAt, warp() % kColumnWarps * kWarpColumns);
    if (part() == 0) clear_totals(memory);
    size_t stage = ring;
    size_t free_stage = ring_end - kStageWords;  // the one before, which all threads have read
    for (uint32_t round = 0; round < num_blocks; round += kParts * kSegmentBlocks) {
      const uint32_t begin = round + part() * kSegmentBlocks;
      float acc[kGroups][4][2] = {};
      SegmentScales scales;
      // All parts go through the stages together, since their threads meet.
#pragma unroll 1
      for (uint32_t b = 0; b < kSegmentBlocks && round + b < num_blocks; b += kStageBlocks) {
        wait_copies<kStages - 2>();
        sync_block();
        cursor.template copy<true, true>(memory, free_stage);
        cursor.advance();
        commit_copies();
        free_stage = stage;
        const auto add_block = [&](uint32_t i) {
          const size_t place = stage + size_t{i / kOwnBlocks} * Weights::kWords;
          const TileFragment<kType> weights =
              weights_place.load(memory.words, place, i % kOwnBlocks, i == 0 && b == 0, scales);
          for (uint32_t group = 0; group < kGroups; ++group)
            add_products(weights, rows_place.load(memory.words, stage, i, group * kGroupRows), acc[group]);
        };
        if (begin + b + kStageBlocks <= num_blocks) {
          // In one piece, so that the loads of a block need not wait for the block before.
#pragma unroll
          for (uint32_t i = 0; i < kStageBlocks; ++i) add_block(i);
        } else {
#pragma unroll 1
          for (uint32_t i = 0; begin + b + i < num_blocks; ++i) add_block(i);
        }
        stage = stage + kStageWords == ring_end ? ring : stage + kStageWords;
      }
      add_in_order(acc, round, num_blocks, memory);
    }
    wait_copies<0>();
    sync_block();
    if (part() == 0) store_totals(memory);
    sync_block();
  }

  // The product of row lane() of the block's tile `tile` and row first_row + `row` of the batch.
  __device__ static float result(Memory& memory, uint32_t tile, uint32_t row) {
    const uint32_t bits = memory.words[kFirstResult + (tile * kColumns + row) * kResultStride + lane()];
    return std::bit_cast<float>(bits);
  }
  // Those of four rows of the tile, from `column` on.
  __device__ static float4 results(Memory& memory, uint32_t tile, uint32_t row, uint32_t column) {
    return memory.words.template load<float4>(kFirstResult + (tile * kColumns + row) * kResultStride +
                                              column);
  }

 private:
  __device__ static uint32_t part() {
    return kParts == 1 ? 0 : threadIdx.x / kPartThreads;
  }
  __device__ static uint32_t thread_of_part() {
    return threadIdx.x % kPartThreads;
  }
  __device__ static uint32_t warp_of_part() {
    return warp() % kPartWarps;
  }

  // The totals of the segments so far, which the threads of the first part have in shared memory: so
  // registers are left for more warps. quad: of the sums of one half of the tile and a group.
  __device__ static size_t total_at(uint32_t quad) {
    return kFirstTotal + size_t{4} * (quad * kPartThreads + thread_of_part());
  }
  __device__ static void clear_totals(Memory& memory) {
    for (uint32_t quad = 0; quad < 2 * kGroups; ++quad)
      memory.words.template store<float4>(total_at(quad), float4{0.0f, 0.0f, 0.0f, 0.0f});
  }
  __device__ static void store_totals(Memory& memory) {
    for (uint32_t quad = 0; quad < 2 * kGroups; ++quad) {
      const auto total = memory.words.template load<float4>(total_at(quad));
      const float of[4] = {total.x, total.y, total.z, total.w};
      for (uint32_t i = 0; i < 4; ++i)
        memory.words[place(0, quad / 2, 4 * (quad % 2) + i)] = std::bit_cast<uint32_t>(of[i]);
    }
  }

  // Adds the sums of a segment of each part to the totals, which the first part has.
  __device__ static void add_in_order(const float (&acc)[kGroups][4][2], uint32_t round, uint32_t num_blocks,
                                      Memory& memory) {
    if constexpr (kParts > 1) {
      if (part() > 0) store(acc, part() - 1, memory);
      sync_block();
    }
    if (part() > 0) return;
    for (uint32_t quad = 0; quad < 2 * kGroups; ++quad) {
      const auto total = memory.words.template load<float4>(total_at(quad));
      float sum[4] = {total.x, total.y, total.z, total.w};
      for (uint32_t i = 0; i < 4; ++i) sum[i] = sum[i] + acc[quad / 2][2 * (quad % 2) + i / 2][i % 2];
      for (uint32_t other = 1; other < kParts; ++other) {
        if (round + other * kSegmentBlocks >= num_blocks) break;
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t bits = memory.words[place(other - 1, quad / 2, 4 * (quad % 2) + i)];
          sum[i] = sum[i] + std::bit_cast<float>(bits);
        }
      }
      memory.words.template store<float4>(total_at(quad), float4{sum[0], sum[1], sum[2], sum[3]});
    }
  }
  __device__ static void store(const float (&from)[kGroups][4][2], uint32_t to, Memory& memory) {
    for (uint32_t group = 0; group < kGroups; ++group)
      for (uint32_t i = 0; i < 8; ++i)
        memory.words[place(to, group, i)] = std::bit_cast<uint32_t>(from[group][i / 2][i % 2]);
  }
  // Where element i of a group of this lane's sums is in memory.
  __device__ static size_t place(uint32_t sums, uint32_t group, uint32_t i) {
    const uint32_t row = warp() % kColumnWarps * kWarpColumns + group * kGroupRows + 2 * (lane() % 4) + i % 2;
    return kFirstResult + sums * kResults + (warp_of_part() / kColumnWarps * kColumns + row) * kResultStride +
           lane() / 4 + 8 * (i / 2);
  }
};

}  // namespace runnel
