// What products read: of a tile of weights a segment of its columns, and of rows of activations the same.
#pragma once

#include "cpu-runner/kernels/lanes-inl.h"
#include "cpu-runner/kernels/product.h"

namespace runnel::RUNNEL_KERNELS {

constexpr uint32_t kSegmentColumns = 256;
constexpr uint32_t kTileVectors = kTileRows / kVectorRows;

// Bytes from block to block of a tile's plane of scales, and from word to word of its quants.
constexpr size_t kPlaneRowBytes = kTileRows * sizeof(uint16_t);
constexpr size_t kWordRowBytes = kTileRows * sizeof(int32_t);

struct WeightSegment {
  const std::byte* scales;
  const std::byte* minima;
  const std::byte* weights;  // quants, or floats
  uint32_t num_columns;
};

// The same from this row on. row_bytes: what a row takes of a word, or of a column of floats.
RUNNEL_INLINE WeightSegment from_row(const WeightSegment& segment, uint32_t row, size_t row_bytes) {
  const size_t in_plane = row * sizeof(uint16_t);
  return {segment.scales + in_plane, segment.minima + in_plane, segment.weights + row * row_bytes,
          segment.num_columns};
}

RUNNEL_INLINE Columns from_column(const Columns& columns, uint32_t column, uint32_t k) {
  const size_t value = column * columns.stride + k;
  const size_t block = column * columns.blocks_stride + k / kBlockColumns;
  return {columns.values + value, columns.quants + value,      columns.scales + block,
          columns.sums + block,   columns.quant_sums + block,  columns.stride,
          columns.blocks_stride,  columns.num_columns - column};
}

RUNNEL_INLINE uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

}  // namespace runnel::RUNNEL_KERNELS
