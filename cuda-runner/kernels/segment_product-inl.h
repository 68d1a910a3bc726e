// The product of a tile of 32 rows of a quantised matrix and up to 32 rows of the batch, for steps that wait
// for the weights. Each warp takes every kWarps-th segment of 256 columns, and keeps the next blocks of
// weights and rows on their way to a ring of its own in shared memory. The sums of the segments are added in
// order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/dot_blocks-inl.h"
#include "cuda-runner/kernels/mma_blocks-inl.h"
#include "cuda-runner/kernels/product_variants.h"

namespace runnel {

// kColumns: rows of the batch; 1 and 2 are multiplied by dot products, 8 and more by tensor cores. kMatrices:
// 2 computes the products of two matrices of the same shape, the second's weights on their way before the
// first is done.
template <TensorType kType, uint32_t kColumnsOf, uint32_t kMatricesOf, uint32_t kWarpsOf>
struct SegmentProduct {
  static constexpr ProductKind kKind = ProductKind::kSegments;
  static constexpr uint32_t kColumns = kColumnsOf;
  static constexpr uint32_t kMatrices = kMatricesOf;
  static constexpr uint32_t kWarps = kWarpsOf;
  static constexpr uint32_t kTiles = kMatrices;  // of a block
  static constexpr bool kHasDots = kColumns < kGroupRows;
  static constexpr uint32_t kGroups = kHasDots ? 1 : kColumns / kGroupRows;
  static constexpr uint32_t kMaxThreads = kWarps * kWarpSize;
  // 16 warps on a multiprocessor leave 128 registers to a thread, 32 leave 64. One row needs no more, and
  // then the blocks of a large matrix are all there at once. Types with two sums need more for 32 rows, if
  // they have minima or there are two matrices.
  static constexpr bool kHasMostScales =
      BlockScales<kType>::kHasTwoSums && (BlockScales<kType>::kFormat.has_minimum || kMatrices > 1);
  static constexpr uint32_t kResidentWarps = kHasDots && kWarps == 8            ? 40 - 8 * kColumns
                                             : kWarps == 4                      ? 12
                                             : kColumns == 32 && kHasMostScales ? kWarps
                                                                                : 16;
  static constexpr uint32_t kMinBlocks = kResidentWarps / kWarps;

  // Sums are exchanged for up to 16 rows of the batch at a time, and each warp adds up those of one or two.
  // With tensor cores the lanes of a warp write columns 2t and rows g; with this stride they are in different
  // banks.
  static constexpr uint32_t kPassColumns = std::min(kColumns, 2 * kGroupRows);
  static constexpr uint32_t kPassGroups = std::min(kGroups, 2u);
  static constexpr uint32_t kPartialStride = 36;
  static constexpr uint32_t kPartials = kPassColumns * kPartialStride;  // of a warp
  static constexpr uint32_t kOwners = std::min(kPassColumns, kWarps);   // warps that have results
  static constexpr uint32_t kOwned = kColumns / kOwners;                // results of a thread

  // Words of the ring of a warp: what the blocks of a multiprocessor leave to it. Devices that give a block
  // no more than 99 KiB have room for 8 warps, and those that give it 64 KiB for dot products and for 4
  // warps.
  static constexpr uint32_t kLeastKib = kWarps == 4 || kHasDots ? 60 : 99;
  static constexpr uint32_t kMaxBlockKib = std::min(227 / kMinBlocks - 1, kWarps <= 8 ? kLeastKib : 226);
  static constexpr uint32_t kRingWords = kMaxBlockKib * 256 / kWarps - kPartials;
  template <uint32_t kCount>
  static constexpr uint32_t kWordsOf =
      StagedLayout<kType, kCount>::kWords + RowsLayout<kType, kColumns, kCount>::kWords;
  // A stage has as many blocks as leave room for three, since each stage costs instructions. With more warps
  // on a multiprocessor two blocks each are bytes enough on their way, 15 KiB at 3.35 TB/s and 600 ns.
  static constexpr bool kHasFour = kColumns <= kGroupRows && kResidentWarps <= 16;
  static constexpr uint32_t kBlocks = kHasFour && 3 * kWordsOf<4> <= kRingWords ? 4
                                      : 3 * kWordsOf<2> <= kRingWords           ? 2
                                                                                : 1;
  using Weights = StagedLayout<kType, kBlocks>;
  using Rows = RowsLayout<kType, kColumns, kBlocks>;
  static constexpr uint32_t kStageWords = kWordsOf<kBlocks>;
  static constexpr uint32_t kStages = std::min(6u, kRingWords / kStageWords);
  static_assert(kStages >= 3);

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

    // Begins the copy of the next blocks to a stage from word `to` on.
    template <bool kHasWeights, bool kHasRows, size_t kMemoryWords>
    __device__ void copy(Shared<uint32_t, kMemoryWords>& memory, size_t to) const {
      if (block_ + kBlocks <= num_blocks_) {
        copy_blocks<true, kHasWeights, kHasRows>(memory, to);
      } else if (block_ < num_blocks_) {
        copy_blocks<false, kHasWeights, kHasRows>(memory, to);
      }
    }
    __device__ void advance() {
      block_ += kBlocks;
      weights_.advance(kBlocks);
      rows_.advance(kBlocks);
      if (block_ % kSegmentBlocks == 0) {
        constexpr uint32_t kOthers = kWarps - 1;
        block_ += kOthers * kSegmentBlocks;
        weights_.skip_segments(kOthers);
        rows_.advance(kOthers * kSegmentBlocks);
      }
      if (kMatrices > 1 && block_ >= num_blocks_ && !is_second_) {
        is_second_ = true;
        block_ = warp() * kSegmentBlocks;
        if (!is_at_end()) seek();
      }
    }

   private:
    template <bool kIsWhole, bool kHasWeights, bool kHasRows, size_t kMemoryWords>
    __device__ void copy_blocks(Shared<uint32_t, kMemoryWords>& memory, size_t to) const {
      const uint32_t num_blocks = num_blocks_ - block_;
      if (kHasWeights) weights_.template copy<kIsWhole>(block_ % kSegmentBlocks == 0, num_blocks, memory, to);
      if (kHasRows) rows_.template copy<kIsWhole>(num_blocks, lane(), memory, to + Weights::kWords);
    }
    __device__ void seek() {
      if (is_second_) {
        weights_.seek(second_, tile_, block_);
      } else {
        weights_.seek(first_, tile_, block_);
      }
      rows_.seek(in_, first_row_, block_, lane());
    }

    const DeviceMatrix& first_;
    const DeviceMatrix& second_;
    const ReadyRows& in_;
    const uint32_t tile_;
    const uint32_t first_row_;
    const uint32_t num_blocks_;
    uint32_t block_;
    bool is_second_ = false;
    TileCursor<kType, kBlocks> weights_;
    RowsCursor<kType, kColumns, kBlocks, kWarpSize> rows_;
  };

  class Ring {
   public:
    __device__ Ring(Cursor cursor, Memory& memory) : cursor_(cursor), memory_(memory) {
      // Weights need not wait for the launch before this one.
      size_t to = begin_;
      for (uint32_t stage = 0; stage + 1 < kStages && !cursor.is_at_end(); ++stage, to += kStageWords) {
        cursor.template copy<true, false>(memory_.ring, to);
        cursor.advance();
      }
      wait_for_previous();
      for (uint32_t stage = 0; stage + 1 < kStages; ++stage, free_ += kStageWords) {
        if (!cursor_.is_at_end()) {
          cursor_.template copy<false, true>(memory_.ring, free_);
          cursor_.advance();
        }
        commit_copies();
      }
    }

    // Waits for the next blocks and begins the copy of others, to where those before them were: all lanes
    // have read these when they meet here. Returns the first word of the stage.
    __device__ size_t take() {
      wait_copies<kStages - 2>();
      sync_warp();
      if (!cursor_.is_at_end()) {
        cursor_.template copy<true, true>(memory_.ring, free_);
        cursor_.advance();
      }
      commit_copies();
      const size_t taken = taken_;
      taken_ = after(taken_);
      free_ = after(free_);
      return taken;
    }

   private:
    __device__ size_t after(size_t stage) const {
      return stage == begin_ + (kStages - 1) * kStageWords ? begin_ : stage + kStageWords;
    }

    Cursor cursor_;
    Memory& memory_;
    const size_t begin_ = warp() * kStages * kStageWords;
    size_t free_ = begin_;   // the stage that is copied to next
    size_t taken_ = begin_;  // the stage that is used next
  };

  // A lane's sums of one segment. With dots: those of the tile's row lane() and each row of the batch;
  // otherwise see add_products, for each group of eight rows.
  struct Sums {
    float of[kGroups][4][2] = {};
  };

  // totals[m][j] is the product of row lane() of matrix m's tile and the batch's row
  // first_row + warp() + kOwners j, in the first kOwners warps. All threads of the block must call it.
  __device__ static void compute(const DeviceMatrix& first, const DeviceMatrix& second, uint32_t tile,
                                 const ReadyRows& in, uint32_t first_row, Memory& memory,
                                 float (&totals)[kMatrices][kOwned]) {
    Ring ring(Cursor(first, second, tile, in, first_row), memory);
    const Places places;
    const uint32_t num_blocks = first.columns / kBlockColumns;
    const uint32_t num_segments = (num_blocks + kSegmentBlocks - 1) / kSegmentBlocks;
#pragma unroll
    for (uint32_t m = 0; m < kMatrices; ++m) {
      for (uint32_t j = 0; j < kOwned; ++j) totals[m][j] = 0.0f;
      for (uint32_t round = 0; round < num_segments; round += kWarps) {
        Sums sums;
        const uint32_t begin = (round + warp()) * kSegmentBlocks;
        const uint32_t end = std::min(begin + kSegmentBlocks, num_blocks);
        SegmentScales scales;
        for (uint32_t block = begin; block < end; block += kBlocks) {
          const size_t stage = ring.take();
#pragma unroll
          for (uint32_t b = 0; b < kBlocks; ++b)
            if (block + b < end) add_block(places, memory, stage, b, b == 0 && block == begin, scales, sums);
        }
        add_in_order(sums, std::min(uint32_t{kWarps}, num_segments - round), memory, totals[m]);
      }
    }
  }

 private:
  struct Places {
    FragmentPlace<kType, kBlocks> weights{0};
    RowsPlace<Rows> rows{Weights::kWords, 0};
  };

  __device__ static void add_block(const Places& places, Memory& memory, size_t stage, uint32_t b,
                                   bool begins_segment, SegmentScales& segment, Sums& sums) {
    using Block = StagedBlock<kType, kBlocks, kWarps * kStages * kStageWords>;
    const Block block(memory.ring, stage, b);
    const size_t rows = stage + Weights::kWords;
    if constexpr (kHasDots) {
      const QuantBlockView<kType, Block> weights(block, lane());
      uint32_t codes[8];
      weights.load_codes(codes);
      if (!QuantTileLayout<kType>::kHasSubScales || begins_segment) {
        segment.scale[0] = weights.stored_scale();
        segment.minimum[0] = weights.stored_minimum();
      }
      const BlockScales<kType> scales(segment.scale[0], segment.minimum[0], weights.sub_scales());
      for (uint32_t n = 0; n < kColumns; ++n) {
        RowBlock x;
        x.first = memory.ring.template load<uint4>(Rows::bytes(rows, b) + 8 * n);
        x.second = memory.ring.template load<uint4>(Rows::bytes(rows, b) + 8 * n + 4);
        x.scale = memory.ring.template load<float>(Rows::scales(rows, b) + n);
        if constexpr (Rows::kHasExtra) {
          const uint32_t extra = memory.ring[Rows::extra(rows, b) + n];
          x.half_sums = static_cast<int32_t>(extra);
          x.scaled_sum = std::bit_cast<float>(extra);
        }
        float& to = sums.of[0][0][n];
        to = add_dots(to, codes, scales, x);
      }
    } else {
      const TileFragment<kType> weights = places.weights.load(memory.ring, stage, b, begins_segment, segment);
      for (uint32_t group = 0; group < kGroups; ++group)
        add_products(weights, places.rows.load(memory.ring, stage, b, group * kGroupRows), sums.of[group]);
    }
  }

  // Adds the sums of the first num_warps warps, in order.
  __device__ static void add_in_order(const Sums& sums, uint32_t num_warps, Memory& memory,
                                      float (&totals)[kOwned]) {
    constexpr uint32_t kOwnedOfPass = kPassColumns / kOwners;
    for (uint32_t pass = 0; pass < kColumns / kPassColumns; ++pass) {
      if (warp() < num_warps) {
        for (uint32_t group = 0; group < kPassGroups; ++group) store(sums, pass * kPassGroups, group, memory);
      }
      sync_block();
      if (warp() < kOwners) {
        // All are loaded before the first is added, since the additions wait for each other.
        float of_warps[kOwnedOfPass][kWarps];
        for (uint32_t j = 0; j < kOwnedOfPass; ++j) {
          const size_t first = (warp() + kOwners * j) * kPartialStride + lane();
          for (uint32_t from = 0; from < kWarps; ++from)
            of_warps[j][from] = from < num_warps ? float{memory.partials[from * kPartials + first]} : 0.0f;
        }
        for (uint32_t j = 0; j < kOwnedOfPass; ++j) {
          float& total = totals[pass * kOwnedOfPass + j];
          for (uint32_t from = 0; from < kWarps; ++from)
            if (from < num_warps) total = total + of_warps[j][from];
        }
      }
      sync_block();
    }
  }
  // Stores a warp's sums of a group of the pass that begins with first_group.
  __device__ static void store(const Sums& sums, uint32_t first_group, uint32_t group, Memory& memory) {
    const size_t first = warp() * kPartials + group * kGroupRows * kPartialStride;
    if constexpr (kHasDots) {
      for (uint32_t n = 0; n < kColumns; ++n)
        memory.partials[first + n * kPartialStride + lane()] = sums.of[0][0][n];
    } else {
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t column = 2 * (lane() % 4) + i % 2;
        memory.partials[first + column * kPartialStride + lane() / 4 + 8 * (i / 2)] =
            sums.of[first_group + group][i / 2][i % 2];
      }
    }
  }
};

}  // namespace runnel
