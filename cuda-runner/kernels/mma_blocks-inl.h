// The products of a block of 32 columns of a tile of 32 rows and 8 rows of the batch, by tensor cores. The
// bits are those of vector_product-inl.h: a sum over 32 columns is an integer and therefore exact, and all
// operations after it are the same in the same order.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/staged_blocks-inl.h"

namespace runnel {

inline constexpr uint32_t kGroupRows = 8;  // rows of the batch in an operand of mma_s8

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

// Where a lane finds its part of the blocks of a tile (StagedLayout), which does not depend on the stage.
template <TensorType kType, uint32_t kBlocks>
class FragmentPlace {
 public:
  using Layout = StagedLayout<kType, kBlocks>;
  using Tile = QuantTileLayout<kType>;

  // first_word: of the blocks, from the begin of a stage.
  __device__ explicit FragmentPlace(uint32_t first_word)
      : codes_(opaque(first_word + Tile::low_word(word_of<kFormat>(lane() % 4), lane() / 4))),
        high_(opaque(first_word + Tile::high_word(0, lane() / 4))),
        scales_(opaque(first_word + Layout::kScalesAt + scale_place(lane() / 4) * Tile::kNumScales / 2)),
        sub_scales_(opaque(first_word + Layout::kSubScalesAt + scale_place(lane() / 4) / 2)) {}

  // The part of block `block` of the stage that begins at word `stage`. d and m that belong to a segment are
  // loaded with its first block.
  template <size_t kMemoryWords>
  __device__ TileFragment<kType> load(Shared<uint32_t, kMemoryWords>& memory, size_t stage, uint32_t block,
                                      bool begins_segment, SegmentScales& segment) const {
    TileFragment<kType> fragment;
    const size_t codes = stage + codes_ + size_t{block} * Tile::kWords;
    const size_t high = stage + high_ + size_t{block} * Tile::kWords;
    for (uint32_t r = 0; r < fragment.kRows; ++r) {
      for (uint32_t part = 0; part < 2; ++part) {
        const uint32_t four = 4 * part + lane() % 4;
        const uint32_t low = memory.template load<uint32_t>(codes + 8 * r * Tile::kRun + part * kPartWords);
        uint32_t high_bits = 0;
        if constexpr (Tile::kHighBits > 0)
          high_bits = memory.template load<uint32_t>(high + 8 * r * Tile::kHighBits + part * kPartHighWords);
        fragment.codes[r / 2][r % 2 + 2 * part] = multipliers_of<kFormat>(low, high_bits, four);
      }
    }
    if (!Tile::kHasSubScales || begins_segment) load_scales(memory, stage + scales_, block, segment);
    uint32_t sub_scales[4] = {};
    if constexpr (Tile::kHasSubScales) {
      const auto words = memory.template load<uint2>(stage + sub_scales_ + size_t{block} * 16);
      for (uint32_t r = 0; r < 4; ++r) sub_scales[r] = (r < 2 ? words.x : words.y) >> (16 * (r % 2)) & 0xffff;
    }
    for (uint32_t r = 0; r < 4; ++r)
      fragment.scales[r] = BlockScales<kType>(segment.scale[r], segment.minimum[r], sub_scales[r]);
    return fragment;
  }

 private:
  static constexpr QuantFormat kFormat = quant_format(kType);
  // From the word of a four to that of the fourth after it, for low and for high bits.
  static constexpr uint32_t kPartWords =
      Tile::low_word(word_of<kFormat>(4), 0) - Tile::low_word(word_of<kFormat>(0), 0);
  static constexpr uint32_t kPartHighWords = 4 * Tile::kHighBits / 8;

  template <size_t kMemoryWords>
  __device__ static void load_scales(Shared<uint32_t, kMemoryWords>& memory, size_t at, uint32_t block,
                                     SegmentScales& segment) {
    at += Tile::kHasSubScales ? 0 : size_t{block} * Layout::kScalesOfBlock;
    uint32_t words[4] = {};
    if constexpr (Tile::kNumScales == 2) {
      const auto loaded = memory.template load<uint4>(at);
      words[0] = loaded.x;
      words[1] = loaded.y;
      words[2] = loaded.z;
      words[3] = loaded.w;
    } else {
      const auto loaded = memory.template load<uint2>(at);
      words[0] = loaded.x;
      words[1] = loaded.y;
    }
    const auto number = [&](uint32_t i) {
      return stored_float<kFormat>(static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2))));
    };
    for (uint32_t r = 0; r < 4; ++r) {
      segment.scale[r] = number(r * Tile::kNumScales);
      if constexpr (kFormat.has_minimum) segment.minimum[r] = number(r * Tile::kNumScales + 1);
    }
  }

  uint32_t codes_;
  uint32_t high_;
  uint32_t scales_;
  uint32_t sub_scales_;
};

// What a lane holds of a block of 8 rows of the batch: its part of an operand of mma_s8, and what belongs to
// its two rows, 2 (lane() % 4) + j.
struct RowsFragment {
  uint2 bytes;    // ReadyRows::quants
  float2 scales;  // ReadyRows::scales
  uint2 extra;    // bits of what RowsExtra says
};

// Where a lane finds its part of rows of the batch that are staged. Rows: RowsLayout.
template <typename Rows>
class RowsPlace {
 public:
  // first_word: of the rows' blocks, from the begin of a stage. first_row: of the warp.
  __device__ RowsPlace(uint32_t first_word, uint32_t first_row)
      : bytes_(opaque(first_word + first_row * (kBlockColumns / 4) + 2 * lane())),
        scales_(opaque(first_word + Rows::kFactorsAt + first_row + 2 * (lane() % 4))) {}

  // The part of the eight rows from `row` on, counted from the warp's first.
  template <size_t kMemoryWords>
  __device__ RowsFragment load(Shared<uint32_t, kMemoryWords>& memory, size_t stage, uint32_t block,
                               uint32_t row) const {
    RowsFragment rows;
    rows.bytes = memory.template load<uint2>(stage + bytes_ + size_t{block} * Rows::kBytesOfBlock +
                                             row * (kBlockColumns / 4));
    const size_t factors = stage + scales_ + size_t{block} * Rows::kFactorsOfBlock + row;
    rows.scales = memory.template load<float2>(factors);
    rows.extra = {0, 0};
    if constexpr (Rows::kHasExtra) rows.extra = memory.template load<uint2>(factors + Rows::kScalesOfBlock);
    return rows;
  }

 private:
  uint32_t bytes_;
  uint32_t scales_;
};

// acc[2 half + i / 2][i % 2] is that of the tile's row lane() / 4 + 16 half + 8 (i / 2) and of the row
// 2 (lane() % 4) + i % 2 of the eight.
template <TensorType kType>
__device__ inline void add_products(const TileFragment<kType>& weights, const RowsFragment& rows,
                                    float (&acc)[4][2]) {
  using Scales = BlockScales<kType>;
  using Sum = Multiplier<Scales::kFormat>;
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
      const int32_t first = Sum::first_sum();
      int32_t sums[4];
      mma_s8(sums, a, b, {first, first, first, first});
      for (uint32_t i = 0; i < 4; ++i) {
        float& to = acc[2 * half + i / 2][i % 2];
        to = weights.scales[2 * half + i / 2].add(to, Sum::value_of(sums[i]), x_scales[i % 2],
                                                  std::bit_cast<float>(extra[i % 2]));
      }
    }
  }
}

}  // namespace runnel
