// The product of a tile of 32 rows of a quantised matrix, or of the same tile of two, and up to 32 rows of
// the batch, for steps that wait for the weights. The warps take segments of 256 columns in turn, and each
// keeps the next blocks of weights and rows on their way to a ring of its own in shared memory. The sums of
// the segments are added in order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "cuda-runner/kernels/dot_blocks-inl.h"
#include "cuda-runner/kernels/mma_blocks-inl.h"
#include "cuda-runner/kernels/normed_blocks-inl.h"
#include "cuda-runner/kernels/product_variants.h"

namespace runnel {

// How many warps a block has, how many blocks a multiprocessor has room for, and the KiB of shared memory
// that a block takes at most.
struct SegmentShape {
  uint32_t warps;
  uint32_t blocks;
  uint32_t kib;
};

// kColumns: rows of the batch; 1 and 2 are multiplied by dot products, 8 and more by tensor cores. kMatrices:
// 2 computes the products of two matrices of the same shape, which share the rows of the batch. In:
// ReadyRows, or NormedRows with dot products.
template <TensorType kType, uint32_t kColumnsOf, uint32_t kMatricesOf, SegmentShape kShape,
          typename InOf = ReadyRows>
struct SegmentProduct {
  using In = InOf;
  static constexpr ProductKind kKind = ProductKind::kSegments;
  static constexpr uint32_t kColumns = kColumnsOf;
  static constexpr uint32_t kMatrices = kMatricesOf;
  static constexpr uint32_t kWarps = kShape.warps;
  static constexpr uint32_t kTiles = kMatrices;  // of a block
  static constexpr bool kHasDots = kColumns < kGroupRows;
  static constexpr bool kIsNormed = std::is_same_v<In, NormedRows>;
  static_assert(kHasDots || !kIsNormed);
  static constexpr uint32_t kGroups = kHasDots ? 1 : kColumns / kGroupRows;
  static constexpr uint32_t kMaxThreads = kWarps * kWarpSize;
  static constexpr uint32_t kMinBlocks = kShape.blocks;

  // With dot products a launch has as many warps as have equally many segments, and one for each row of the
  // batch. With tensor cores that was no faster.
  static uint32_t num_threads(uint32_t columns) {
    const uint32_t num_segments = divide_up(columns, kSegmentColumns);
    const uint32_t num_rounds = divide_up(num_segments, kWarps);
    return kHasDots ? std::max(kOwners, divide_up(num_segments, num_rounds)) * kWarpSize : kMaxThreads;
  }
  __device__ static uint32_t num_warps() { return kHasDots ? blockDim.x / kWarpSize : kWarps; }

  // Sums are exchanged for up to 16 rows of the batch at a time, and each warp adds up those of one or two.
  // With tensor cores the lanes of a warp write columns 2t and rows g; with this stride they are in different
  // banks.
  static constexpr uint32_t kPassColumns = std::min(kColumns, 2 * kGroupRows);
  static constexpr uint32_t kPassGroups = std::min(kGroups, 2u);
  static constexpr uint32_t kPartialStride = 36;
  static constexpr uint32_t kPartials = kPassColumns * kPartialStride;  // of a warp
  static constexpr uint32_t kOwners = std::min(kPassColumns, kWarps);   // warps that have results
  static constexpr uint32_t kOwned = kColumns / kOwners;                // results of a thread

  // Normed rows are whole in the block's memory, others pass through the rings with the weights.
  using Normed = NormedBlocks<kType, kColumns>;
  static constexpr uint32_t kNormedWords = kIsNormed ? Normed::kWords : 0;

  // Words of the ring of a warp.
  static constexpr uint32_t kRingWords = (kShape.kib * 256 - kNormedWords) / kWarps - kPartials;
  template <uint32_t kCount>
  static constexpr uint32_t kWordsOf = kMatrices* StagedLayout<kType, kCount>::kWords +
                                       (kIsNormed ? 0 : RowsLayout<kType, kColumns, kCount>::kWords);
  // Each stage costs instructions, so a stage has as many blocks as leave room for one that is used and one
  // or two on their way: one for two matrices, which are twice the bytes.
  static constexpr uint32_t kLeastStages = kMatrices == 1 ? 3 : 2;
  static constexpr uint32_t kBlocks = kColumns <= kGroupRows && kLeastStages * kWordsOf<4> <= kRingWords ? 4
                                      : kLeastStages * kWordsOf<2> <= kRingWords                         ? 2
                                                                                                         : 1;
  using Weights = StagedLayout<kType, kBlocks>;
  using Rows = RowsLayout<kType, kColumns, kBlocks>;
  static constexpr uint32_t kRowsAt = kMatrices * Weights::kWords;
  static constexpr uint32_t kStageWords = kWordsOf<kBlocks>;
  static constexpr uint32_t kStages = std::min(6u, kRingWords / kStageWords);
  static_assert(kStages >= kLeastStages);
  static constexpr uint32_t kNormedAt = kWarps * kStages * kStageWords;
  static constexpr uint32_t kMemoryWords = kNormedAt + kNormedWords;

  struct Memory {
    static constexpr uint32_t kBytes = 4 * (kMemoryWords + kWarps * kPartials);
    Shared<uint32_t, kMemoryWords> words;  // the rings, then normed rows
    Shared<float, kWarps * kPartials> partials;
  };

  // The blocks of the matrices that a warp takes, in order, with the ready rows of the batch.
  class Cursor {
   public:
    __device__ Cursor(const DeviceMatrix& first, const DeviceMatrix& second, uint32_t tile, const In& in,
                      uint32_t first_row)
        : num_blocks_(first.columns / kBlockColumns), block_(warp() * kSegmentBlocks) {
      if (is_at_end()) return;
      weights_[0].seek(first, tile, block_);
      if constexpr (kMatrices > 1) weights_[1].seek(second, tile, block_);
      if constexpr (!kIsNormed) rows_.seek(in, first_row, block_, lane());
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
      for (auto& each : weights_) each.advance(kBlocks);
      if constexpr (!kIsNormed) rows_.advance(kBlocks);
      if (block_ % kSegmentBlocks != 0) return;
      const uint32_t others = num_warps() - 1;
      block_ += others * kSegmentBlocks;
      for (auto& each : weights_) each.skip_segments(others);
      if constexpr (!kIsNormed) rows_.advance(others * kSegmentBlocks);
    }

   private:
    template <bool kIsWhole, bool kHasWeights, bool kHasRows, size_t kMemoryWords>
    __device__ void copy_blocks(Shared<uint32_t, kMemoryWords>& memory, size_t to) const {
      const uint32_t num_blocks = num_blocks_ - block_;
      const bool begins_segment = block_ % kSegmentBlocks == 0;
      for (uint32_t m = 0; kHasWeights && m < kMatrices; ++m)
        weights_[m].template copy<kIsWhole>(begins_segment, num_blocks, memory, to + m * Weights::kWords);
      if constexpr (kHasRows && !kIsNormed)
        rows_.template copy<kIsWhole>(num_blocks, lane(), memory, to + kRowsAt);
    }

    const uint32_t num_blocks_;
    uint32_t block_;
    TileCursor<kType, kBlocks> weights_[kMatrices];
    RowsCursor<kType, kColumns, kBlocks, kWarpSize> rows_;
  };

  class Ring {
   public:
    __device__ Ring(Cursor cursor, Memory& memory) : cursor_(cursor), memory_(memory) {
      // Weights need not wait for the launch before this one.
      size_t to = begin_;
      for (uint32_t stage = 0; stage + 1 < kStages && !cursor.is_at_end(); ++stage, to += kStageWords) {
        cursor.template copy<true, false>(memory_.words, to);
        cursor.advance();
      }
      wait_for_previous();
      for (uint32_t stage = 0; stage + 1 < kStages; ++stage, free_ += kStageWords) {
        if (!cursor_.is_at_end()) {
          cursor_.template copy<false, true>(memory_.words, free_);
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
        cursor_.template copy<true, true>(memory_.words, free_);
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

  // A lane's sums of one segment, of a matrix. With dots: those of the tile's row lane() and each row of the
  // batch; otherwise see add_products, for each group of eight rows.
  using Sums = float[kGroups][4][2];

  // totals[m][j] is the product of row lane() of matrix m's tile and the batch's row
  // first_row + warp() + kOwners j, in the first kOwners warps. All threads of the block must call it.
  __device__ static void compute(const DeviceMatrix& first, const DeviceMatrix& second, uint32_t tile,
                                 const In& in, uint32_t first_row, Memory& memory,
                                 float (&totals)[kMatrices][kOwned]) {
    Ring ring(Cursor(first, second, tile, in, first_row), memory);
    if constexpr (kIsNormed)
      Normed::store(in, first.columns, num_warps(), memory.words, kNormedAt, memory.partials);
    const Places places;
    const uint32_t num_blocks = first.columns / kBlockColumns;
    const uint32_t num_segments = (num_blocks + kSegmentBlocks - 1) / kSegmentBlocks;
    for (auto& of_matrix : totals)
      for (float& total : of_matrix) total = 0.0f;
#pragma unroll 1
    for (uint32_t round = 0; round < num_segments; round += num_warps()) {
      Sums sums[kMatrices] = {};
      const uint32_t begin = (round + warp()) * kSegmentBlocks;
      const uint32_t end = std::min(begin + kSegmentBlocks, num_blocks);
      SegmentScales scales[kMatrices];
#pragma unroll 1
      for (uint32_t block = begin; block < end; block += kBlocks) {
        const size_t stage = ring.take();
#pragma unroll
        for (uint32_t b = 0; b < kBlocks; ++b)
          if (block + b < end)
            add_block(places, memory, stage, b, block, b == 0 && block == begin, scales, sums);
      }
#pragma unroll
      for (uint32_t m = 0; m < kMatrices; ++m)
        add_in_order(sums[m], std::min(num_warps(), num_segments - round), memory, totals[m]);
    }
  }

 private:
  struct Places {
    FragmentPlace<kType, kBlocks> weights{0};
    RowsPlace<Rows> rows{kRowsAt, 0};
  };

  // Block b of a stage whose first one is block `block` of the matrices.
  __device__ static void add_block(const Places& places, Memory& memory, size_t stage, uint32_t b,
                                   uint32_t block, bool begins_segment, SegmentScales (&segments)[kMatrices],
                                   Sums (&sums)[kMatrices]) {
    if constexpr (kHasDots) {
      RowBlock rows[kColumns];
      for (uint32_t n = 0; n < kColumns; ++n) {
        if constexpr (kIsNormed)
          rows[n] = row_block<typename Normed::Layout>(memory, kNormedAt, block + b, n);
        else
          rows[n] = row_block<Rows>(memory, stage + kRowsAt, b, n);
      }
      for (uint32_t m = 0; m < kMatrices; ++m) {
        using Block = StagedBlock<kType, kBlocks, kMemoryWords>;
        const Block staged(memory.words, stage + m * Weights::kWords, b);
        const QuantBlockView<kType, Block> weights(staged, lane());
        uint32_t codes[8];
        weights.load_codes(codes);
        if (!QuantTileLayout<kType>::kHasSubScales || begins_segment) {
          segments[m].scale[0] = weights.stored_scale();
          segments[m].minimum[0] = weights.stored_minimum();
        }
        const BlockScales<kType> scales(segments[m].scale[0], segments[m].minimum[0], weights.sub_scales());
        for (uint32_t n = 0; n < kColumns; ++n)
          sums[m][0][0][n] = add_dots(sums[m][0][0][n], codes, scales, rows[n]);
      }
    } else {
      TileFragment<kType> weights[kMatrices];
      for (uint32_t m = 0; m < kMatrices; ++m)
        weights[m] =
            places.weights.load(memory.words, stage + m * Weights::kWords, b, begins_segment, segments[m]);
      for (uint32_t group = 0; group < kGroups; ++group) {
        const RowsFragment rows = places.rows.load(memory.words, stage, b, group * kGroupRows);
        for (uint32_t m = 0; m < kMatrices; ++m) add_products(weights[m], rows, sums[m][group]);
      }
    }
  }
  // Row n of block b of the rows that begin at word `rows`, for dot products.
  template <typename Layout>
  __device__ static RowBlock row_block(Memory& memory, size_t rows, uint32_t b, uint32_t n) {
    RowBlock x;
    x.first = memory.words.template load<uint4>(Layout::bytes(rows, b) + 8 * n);
    x.second = memory.words.template load<uint4>(Layout::bytes(rows, b) + 8 * n + 4);
    x.scale = memory.words.template load<float>(Layout::scales(rows, b) + n);
    if constexpr (Layout::kHasExtra) {
      const uint32_t extra = memory.words[Layout::extra(rows, b) + n];
      x.half_sums = static_cast<int32_t>(extra);
      x.scaled_sum = std::bit_cast<float>(extra);
    }
    return x;
  }

  // Adds the sums of the first `count` warps, in order.
  __device__ static void add_in_order(const Sums& sums, uint32_t count, Memory& memory,
                                      float (&totals)[kOwned]) {
    constexpr uint32_t kOwnedOfPass = kPassColumns / kOwners;
    for (uint32_t pass = 0; pass < kColumns / kPassColumns; ++pass) {
      if (warp() < count) {
        for (uint32_t group = 0; group < kPassGroups; ++group) store(sums, pass * kPassGroups, group, memory);
      }
      sync_block();
      if (warp() < kOwners) {
        // All are loaded before the first is added, since the additions wait for each other.
        float of_warps[kOwnedOfPass][kWarps];
        for (uint32_t j = 0; j < kOwnedOfPass; ++j) {
          const size_t first = (warp() + kOwners * j) * kPartialStride + lane();
          for (uint32_t from = 0; from < kWarps; ++from)
            of_warps[j][from] = from < count ? float{memory.partials[from * kPartials + first]} : 0.0f;
        }
        for (uint32_t j = 0; j < kOwnedOfPass; ++j) {
          float& total = totals[pass * kOwnedOfPass + j];
          for (uint32_t from = 0; from < kWarps; ++from)
            if (from < count) total = total + of_warps[j][from];
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
        memory.partials[first + n * kPartialStride + lane()] = sums[0][0][n];
    } else {
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t column = 2 * (lane() % 4) + i % 2;
        memory.partials[first + column * kPartialStride + lane() / 4 + 8 * (i / 2)] =
            sums[first_group + group][i / 2][i % 2];
      }
    }
  }
};

}  // namespace runnel
