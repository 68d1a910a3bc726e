// Products of the rows of a tile with rows of activations, in the order of docs/numerics.md: a segment of 256
// columns at a time, and in a segment block by block. Each lane is a row of its own: no sum crosses lanes,
// and every register block gives the same bits. A weight is unpacked once for the columns of its register
// block, an activation is loaded once for the rows, and there are as many independent sums as registers
// allow.
#pragma once

#include "cpu-runner/kernels/f32_quants-inl.h"
#include "cpu-runner/kernels/floats-inl.h"
#include "cpu-runner/kernels/quants-inl.h"

namespace runnel::RUNNEL_KERNELS {

// Vectors of rows in a register block.
template <typename Format>
constexpr int vectors_for(int num_columns) {
  if (kVectorRows == 16) return 2;
  if (kVectorRows == 4) return kNumRegisters == 32 || num_columns == 1 ? 4 : 2;
  if (num_columns == 1) return 4;
  // Each addition to a float waits for the one before, so eight sums must be in progress.
  return num_columns == 2 || Format::kIsFloat ? 2 : 1;
}

// out = total + acc, where total is 0 in the first segment and the content of out afterwards.
template <typename Format, int kColumns>
static void multiply_group(const WeightSegment& segment, const ColumnGroup& x, bool is_first, float* out,
                           size_t out_stride) {
  constexpr int kVectors = vectors_for<Format>(kColumns);
  for (uint32_t first = 0; first < kTileVectors; first += kVectors) {
    Floats acc[kColumns][kVectors] = {};
    add_segment<Format>(Format::from_row(segment, first * kVectorRows), x, acc);
#pragma GCC unroll 12
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        float* to = out + c * out_stride + (first + v) * kVectorRows;
        store_floats(to, (is_first ? Floats{} : load_floats(to)) + acc[c][v]);
      }
    }
  }
}

// Prefetches part of a tile that this thread, or its neighbour, reads soon: the part that these columns are
// of all columns. Tiles lie in the arena in the order in which a forward pass reads them. The processor's own
// prefetching starts again in each page and in each tile, which is late for tiles of this size. The weights
// go to the second cache: the first one has the activations, and is too small for two tiles.
constexpr size_t kTilesAhead = 2;
// For a single column of activations, longer tiles are read at the speed of memory without it, and slower
// with it.
constexpr size_t kShortTileBytes = 32 << 10;
RUNNEL_INLINE void prefetch_share(const TiledWeights& weights, const std::byte* tile, uint32_t begin,
                                  uint32_t end) {
  constexpr int kForReading = 0;
  constexpr int kIntoSecondCache = 2;
  const std::byte* const ahead = tile + kTilesAhead * weights.tile_bytes;
  const std::byte* const last = ahead + weights.tile_bytes * end / weights.columns;
  for (const std::byte* line = ahead + weights.tile_bytes * begin / weights.columns; line < last;
       line += kLineBytes)
    __builtin_prefetch(line, kForReading, kIntoSecondCache);
}

// Multiplies the widest register block of at most num_columns columns. Returns its width.
template <typename Format, int kColumns, int... kNarrower>
RUNNEL_INLINE uint32_t multiply_widest(Widths<kColumns, kNarrower...>, uint32_t num_columns,
                                       const WeightSegment& segment, const ColumnGroup& x, bool is_first,
                                       float* out, size_t out_stride) {
  if constexpr (sizeof...(kNarrower) > 0) {
    if (num_columns < kColumns)
      return multiply_widest<Format>(Widths<kNarrower...>{}, num_columns, segment, x, is_first, out,
                                     out_stride);
  }
  multiply_group<Format, kColumns>(segment, x, is_first, out, out_stride);
  return kColumns;
}

template <typename Format>
static void multiply_tile(const TiledWeights& weights, const std::byte* tile, const Columns& columns,
                          float* out, size_t out_stride) {
  const bool prefetches = columns.count > 1 || weights.tile_bytes <= kShortTileBytes;
  for (uint32_t first = 0; first < weights.columns; first += kSegmentColumns) {
    if (prefetches) prefetch_share(weights, tile, first, min_u32(first + kSegmentColumns, weights.columns));
    const WeightSegment segment =
        Format::segment(tile, first, min_u32(kSegmentColumns, weights.columns - first));
    for (uint32_t done = 0; done < columns.count;) {
      const uint32_t row = columns.first + done;
      const uint32_t left = min_u32(columns.count - done, kPanelRows - row % kPanelRows);
      done += multiply_widest<Format>(typename Format::RegisterBlocks{}, left, segment,
                                      column_group(columns, row, first), first == 0, out + done * out_stride,
                                      out_stride);
    }
  }
}

template <template <TensorType> typename Quantised>
static void multiply(const TiledWeights& weights, size_t tile, const Columns& columns, float* out,
                     size_t out_stride) {
  const std::byte* from = weights.tiles + tile * weights.tile_bytes;
  switch (weights.type) {
    case TensorType::kF32:
      return multiply_tile<F32>(weights, from, columns, out, out_stride);
    case TensorType::kF16:
      return multiply_tile<F16>(weights, from, columns, out, out_stride);
    case TensorType::kBF16:
      return multiply_tile<BF16>(weights, from, columns, out, out_stride);
    case TensorType::kQ4_0:
      return multiply_tile<Quantised<TensorType::kQ4_0>>(weights, from, columns, out, out_stride);
    case TensorType::kQ4_1:
      return multiply_tile<Quantised<TensorType::kQ4_1>>(weights, from, columns, out, out_stride);
    case TensorType::kQ8_0:
      return multiply_tile<Quantised<TensorType::kQ8_0>>(weights, from, columns, out, out_stride);
    case TensorType::kQ5_0:
      return multiply_tile<Quantised<TensorType::kQ5_0>>(weights, from, columns, out, out_stride);
    case TensorType::kQ5_1:
      return multiply_tile<Quantised<TensorType::kQ5_1>>(weights, from, columns, out, out_stride);
    case TensorType::kQ4_K:
      return multiply_tile<Quantised<TensorType::kQ4_K>>(weights, from, columns, out, out_stride);
    case TensorType::kQ5_K:
      return multiply_tile<Quantised<TensorType::kQ5_K>>(weights, from, columns, out, out_stride);
    case TensorType::kQ6_K:
      return multiply_tile<Quantised<TensorType::kQ6_K>>(weights, from, columns, out, out_stride);
    case TensorType::kQ2_K:
      return multiply_tile<Quantised<TensorType::kQ2_K>>(weights, from, columns, out, out_stride);
    case TensorType::kQ3_K:
      return multiply_tile<Quantised<TensorType::kQ3_K>>(weights, from, columns, out, out_stride);
    case TensorType::kIQ4_NL:
      return multiply_tile<Quantised<TensorType::kIQ4_NL>>(weights, from, columns, out, out_stride);
    case TensorType::kIQ4_XS:
      return multiply_tile<Quantised<TensorType::kIQ4_XS>>(weights, from, columns, out, out_stride);
    case TensorType::kMXFP4:
      return multiply_tile<Quantised<TensorType::kMXFP4>>(weights, from, columns, out, out_stride);
  }
}

}  // namespace runnel::RUNNEL_KERNELS
