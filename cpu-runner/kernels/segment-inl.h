// What products read: a segment of the columns of a tile of weights, and the same columns of rows of
// activations.
#pragma once

#include "cpu-runner/kernels/lanes-inl.h"
#include "cpu-runner/kernels/product.h"

namespace runnel::RUNNEL_KERNELS {

constexpr uint32_t kTileVectors = kTileRows / kVectorRows;

// Bytes from one word of a block to the next.
constexpr size_t kWordRowBytes = kTileRows * sizeof(int32_t);

// The parts of a segment, for the rows of a tile from one row on.
struct WeightSegment {
  const std::byte* scales;
  const std::byte* minima;
  const std::byte* sub_scales;
  const std::byte* sub_minima;
  const std::byte* weights;  // words, or floats
  uint32_t num_columns;
};

// What a register block reads: rows of one panel, from column k of the weights on.
struct ColumnGroup {
  const float* values;  // (rows, stride)
  size_t stride;
  const ReadyBlock* blocks;  // (blocks, kPanelRows), from the first row of the group on
};

RUNNEL_INLINE ColumnGroup column_group(const Columns& columns, uint32_t row, uint32_t k) {
  const ReadyPanel* const panel = columns.panels + row / kPanelRows * columns.num_blocks + k / kBlockColumns;
  return {columns.values + row * columns.stride + k, columns.stride, panel->rows + row % kPanelRows};
}

// The columns of register blocks, the widest first.
template <int... kColumns>
struct Widths {};
// Where the instruction set has no fast products, more widths would mainly cost compilation time.
#if RUNNEL_HAS_AVX2 || RUNNEL_HAS_NEON
using FloatWidths = Widths<4, 3, 2, 1>;
#else
using FloatWidths = Widths<4, 1>;
#endif

RUNNEL_INLINE uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

}  // namespace runnel::RUNNEL_KERNELS
