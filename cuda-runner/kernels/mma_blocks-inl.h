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

template <TensorType kType, uint32_t kBlocks, size_t kMemoryWords>
__device__ inline TileFragment<kType> load_fragment(const StagedBlock<kType, kBlocks, kMemoryWords>& block,
                                                    bool begins_segment, SegmentScales& segment) {
  TileFragment<kType> fragment;
  for (uint32_t r = 0; r < fragment.kRows; ++r) {
    const QuantBlockView<kType, StagedBlock<kType, kBlocks, kMemoryWords>> row(block, lane() / 4 + 8 * r);
    row.load_two(lane() % 4, fragment.codes[r / 2][r % 2], fragment.codes[r / 2][2 + r % 2]);
    if (!QuantTileLayout<kType>::kHasSubScales || begins_segment) {
      segment.scale[r] = row.stored_scale();
      segment.minimum[r] = row.stored_minimum();
    }
    fragment.scales[r] = BlockScales<kType>(segment.scale[r], segment.minimum[r], row.sub_scales());
  }
  return fragment;
}

// What a lane holds of a block of 8 rows of the batch: its part of an operand of mma_s8, and what belongs to
// its two rows, 2 (lane() % 4) + j.
struct RowsFragment {
  uint2 bytes;    // ReadyRows::quants
  float2 scales;  // ReadyRows::scales
  uint2 extra;    // bits of what RowsExtra says
};

// The fragment of the eight rows from `row` on. Rows: RowsLayout; first_word: where its blocks begin.
template <typename Rows, size_t kMemoryWords>
__device__ inline RowsFragment load_rows(Shared<uint32_t, kMemoryWords>& memory, size_t first_word,
                                         uint32_t block, size_t row) {
  const size_t pair = row + 2 * (lane() % 4);
  RowsFragment rows;
  rows.bytes = memory.template load<uint2>(Rows::bytes(first_word, block) +
                                           (row + lane() / 4) * (kBlockColumns / 4) + 2 * (lane() % 4));
  rows.scales = memory.template load<float2>(Rows::scales(first_word, block) + pair);
  rows.extra = {0, 0};
  if constexpr (Rows::kHasExtra)
    rows.extra = memory.template load<uint2>(Rows::extra(first_word, block) + pair);
  return rows;
}

// acc[2 half + i / 2][i % 2] is that of the tile's row lane() / 4 + 16 half + 8 (i / 2) and of the row
// 2 (lane() % 4) + i % 2 of the eight.
template <TensorType kType>
__device__ inline void add_products(const TileFragment<kType>& weights, const RowsFragment& rows,
                                    float (&acc)[4][2]) {
  using Scales = BlockScales<kType>;
  using Multiplier = Multiplier<Scales::kFormat>;
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
      const int32_t first = Multiplier::first_sum();
      int32_t sums[4];
      mma_s8(sums, a, b, {first, first, first, first});
      for (uint32_t i = 0; i < 4; ++i) {
        float& to = acc[2 * half + i / 2][i % 2];
        to = weights.scales[2 * half + i / 2].add(to, Multiplier::value_of(sums[i]), x_scales[i % 2],
                                                  std::bit_cast<float>(extra[i % 2]));
      }
    }
  }
}

}  // namespace runnel
