// The product of a tile of 32 rows of a quantised matrix and up to 32 rows of the batch, by tensor cores, for
// steps that wait for the weights. Each warp takes every kWarps-th segment of 256 columns, and keeps the next
// blocks of weights and rows on their way to a ring of its own in shared memory. The sums of the segments are
// added in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/mma_blocks-inl.h"

namespace runnel {

// kColumns: rows of the batch. kMatrices: 2 computes the products of two matrices of the same shape, the
// second's weights on their way before the first is done.
template <TensorType kType, uint32_t kColumnsOf, uint32_t kMatricesOf, uint32_t kWarpsOf>
struct SegmentProduct {
  static constexpr uint32_t kColumns = kColumnsOf;
  static constexpr uint32_t kMatrices = kMatricesOf;
  static constexpr uint32_t kWarps = kWarpsOf;
  static constexpr uint32_t kGroups = kColumns / kGroupRows;
  static constexpr uint32_t kMaxThreads = kWarps * kWarpSize;
  // 16 warps on a multiprocessor leave 128 registers to a thread, 32 leave 64.
  static constexpr uint32_t kMinBlocks = (kGroups == 1 ? 32 : 16) / kWarps;

  using Weights = StagedLayout<kType>;
  using Rows = RowsLayout<kType, kColumns>;
  static constexpr uint32_t kStageWords = Weights::kWords + Rows::kWords;
  // The bytes on their way must cover the latency of the memory: 15 KiB on a multiprocessor at 3.35 TB/s and
  // 600 ns. Two stages of 16 warps are at least 16 KiB.
  static constexpr uint32_t kRingWords = 1700;  // of a warp, at most
  static constexpr uint32_t kStages = std::min(6u, kRingWords / kStageWords);
  static_assert(kStages >= 3);

  // Sums are exchanged for 8 rows of the batch at a time. The lanes of a warp write columns 2t and rows g;
  // with this stride they are in different banks.
  static constexpr uint32_t kPartialStride = 36;
  static constexpr uint32_t kPartials = kGroupRows * kPartialStride;  // of a warp

  struct Memory {
    static constexpr uint32_t kBytes = 4 * kWarps * (kStages * kStageWords + kPartials);
    Shared<uint32_t, kWarps * kStages * kStageWords> ring;
    Shared<float, kWarps * kPartials> partials;
  };

  // The blocks of the matrices that a warp takes, in order, with the rows of the batch.
  class Cursor {
   public:
    __device__ Cursor(const DeviceMatrix& first, const DeviceMatrix& second, uint32_t tile,
                      const ReadyRows& in, uint32_t first_row)
        : first_(first),
          second_(second),
          in_(in),
          tile_(tile),
          first_row_(first_row),
          num_blocks_(first.columns / kBlockColumns),
          block_(warp() * kSegmentBlocks) {
      if (!is_at_end()) seek();
    }
    __device__ bool is_at_end() const { return block_ >= num_blocks_; }

    // Begin the copy of the block to a stage from word `to` on.
    template <size_t kMemoryWords>
    __device__ void copy_weights(Shared<uint32_t, kMemoryWords>& memory, size_t to) const {
      weights_.copy(block_ % kSegmentBlocks == 0, memory, to);
    }
    template <size_t kMemoryWords>
    __device__ void copy_rows(Shared<uint32_t, kMemoryWords>& memory, size_t to) const {
      constexpr uint32_t kBytePieces = kColumns * kBlockColumns / 16;
      for (uint32_t first = 0; first < kBytePieces; first += kWarpSize) {
        if (first + lane() < kBytePieces)
          copy_async(memory, to + Weights::kWords + kPieceWords * (first + lane()), in_.quants,
                     bytes_ + 16 * first);
      }
      if (lane() < kScalePieces)
        copy_async(memory, to + Weights::kWords + Rows::kScales + kPieceWords * lane(), scales_, scale_byte_);
    }
    __device__ void advance() {
      ++block_;
      if (block_ % kSegmentBlocks == 0) block_ += (kWarps - 1) * kSegmentBlocks;
      if (block_ % kSegmentBlocks != 0 && block_ < num_blocks_) {
        weights_.advance();
        bytes_ += size_t{kBlockColumns} * in_.row_capacity;
        scale_byte_ += size_t{4} * in_.row_capacity;
        return;
      }
      if (block_ >= num_blocks_ && !is_second_ && kMatrices > 1) {
        is_second_ = true;
        block_ = warp() * kSegmentBlocks;
      }
      if (!is_at_end()) seek();
    }

   private:
    // Lanes take the pieces of scales, and after them those of what Rows::kExtra has.
    static constexpr uint32_t kPiecesOfScales = kColumns / kPieceWords;
    static constexpr uint32_t kScalePieces = kPiecesOfScales * (Rows::kHasExtra ? 2 : 1);
    static_assert(kScalePieces <= kWarpSize);

    __device__ void seek() {
      if (is_second_) {
        weights_.seek(second_, tile_, block_);
      } else {
        weights_.seek(first_, tile_, block_);
      }
      const size_t index = in_.block_index(block_, first_row_);
      bytes_ = index * kBlockColumns + 16 * lane();
      const bool is_extra = lane() >= kPiecesOfScales;
      scales_ = is_extra ? extra_bytes<kType>(in_) : in_.scales.bytes();
      scale_byte_ = 4 * index + 16 * (is_extra ? lane() - kPiecesOfScales : lane());
    }

    const DeviceMatrix& first_;
    const DeviceMatrix& second_;
    const ReadyRows& in_;
    const uint32_t tile_;
    const uint32_t first_row_;
    const uint32_t num_blocks_;
    uint32_t block_;
    bool is_second_ = false;
    TileCursor<kType> weights_;
    size_t bytes_;
    Global<const uint8_t> scales_;
    size_t scale_byte_;
  };

  class Ring {
   public:
    __device__ Ring(Cursor cursor, Memory& memory) : cursor_(cursor), memory_(memory) {
      // Weights need not wait for the launch before this one.
      for (uint32_t stage = 0; stage + 1 < kStages && !cursor.is_at_end(); ++stage, cursor.advance())
        cursor.copy_weights(memory_.ring, first_word(stage));
      wait_for_previous();
      for (; free_ + 1 < kStages; ++free_) {
        if (!cursor_.is_at_end()) {
          cursor_.copy_rows(memory_.ring, first_word(free_));
          cursor_.advance();
        }
        commit_copies();
      }
    }

    // Waits for the next block and begins the copy of another one, to where the block before it was: all
    // lanes have read that when they meet here. Returns the first word of the block.
    __device__ size_t take() {
      wait_copies<kStages - 2>();
      sync_warp();
      if (!cursor_.is_at_end()) {
        cursor_.copy_weights(memory_.ring, first_word(free_));
        cursor_.copy_rows(memory_.ring, first_word(free_));
        cursor_.advance();
      }
      commit_copies();
      free_ = after(free_);
      const size_t taken = first_word(taken_);
      taken_ = after(taken_);
      return taken;
    }

   private:
    __device__ static size_t first_word(uint32_t stage) { return (warp() * kStages + stage) * kStageWords; }
    __device__ static uint32_t after(uint32_t stage) { return stage + 1 == kStages ? 0 : stage + 1; }

    Cursor cursor_;
    Memory& memory_;
    uint32_t free_ = 0;   // the stage that is copied to next
    uint32_t taken_ = 0;  // the stage that is used next
  };

  // totals[m][group] is the product of row lane() of matrix m's tile and the batch's row
  // first_row + warp() + 8 group, in the first 8 warps. All threads of the block must call it.
  __device__ static void compute(const DeviceMatrix& first, const DeviceMatrix& second, uint32_t tile,
                                 const ReadyRows& in, uint32_t first_row, Memory& memory,
                                 float (&totals)[kMatrices][kGroups]) {
    Ring ring(Cursor(first, second, tile, in, first_row), memory);
    const uint32_t num_blocks = first.columns / kBlockColumns;
    const uint32_t num_segments = (num_blocks + kSegmentBlocks - 1) / kSegmentBlocks;
#pragma unroll
    for (uint32_t m = 0; m < kMatrices; ++m) {
      for (uint32_t group = 0; group < kGroups; ++group) totals[m][group] = 0.0f;
      for (uint32_t round = 0; round < num_segments; round += kWarps) {
        float acc[kGroups][4][2] = {};
        const uint32_t begin = (round + warp()) * kSegmentBlocks;
        const uint32_t end = std::min(begin + kSegmentBlocks, num_blocks);
        SegmentScales scales;
        for (uint32_t block = begin; block < end; ++block) {
          const size_t first_word = ring.take();
          TileFragment<kType> weights;
          load_fragment<kType>(memory.ring, first_word, block == begin, scales, weights);
          for (uint32_t group = 0; group < kGroups; ++group)
            add_products(weights, Rows::load(memory.ring, first_word + Weights::kWords, group * kGroupRows),
                         acc[group]);
        }
        add_in_order(acc, std::min(uint32_t{kWarps}, num_segments - round), memory, totals[m]);
      }
    }
  }

  // Adds the sums of the first num_warps warps, in order.
  __device__ static void add_in_order(const float (&acc)[kGroups][4][2], uint32_t num_warps, Memory& memory,
                                      float (&totals)[kGroups]) {
    for (uint32_t group = 0; group < kGroups; ++group) {
      if (warp() < num_warps) {
        for (uint32_t i = 0; i < 8; ++i) {
          const uint32_t column = 2 * (lane() % 4) + i % 2;
          memory.partials[warp() * kPartials + column * kPartialStride + lane() / 4 + 8 * (i / 2)] =
              acc[group][i / 2][i % 2];
        }
      }
      sync_block();
      if (warp() < kGroupRows) {
        for (uint32_t from = 0; from < num_warps; ++from)
          totals[group] =
              totals[group] + memory.partials[from * kPartials + warp() * kPartialStride + lane()];
      }
      sync_block();
    }
  }
};

}  // namespace runnel
