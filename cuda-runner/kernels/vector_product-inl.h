// The product of a tile of 32 rows of a matrix and a few rows of the batch. Each lane takes a row of the
// matrix. The warps of a block take the segments of the columns in turn.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda-runner/kernels/dot_blocks-inl.h"
#include "cuda-runner/kernels/product_variants.h"
#include "cuda-runner/kernels/quant_blocks-inl.h"

namespace runnel {

// The index of the first word of a piece of 16 bytes.
__device__ inline size_t piece_index(uint32_t tile, uint32_t num_pieces, uint32_t piece,
                                     uint32_t row_in_tile) {
  return ((static_cast<size_t>(tile) * num_pieces + piece) * kWarpTileRows + row_in_tile) * 4;
}

// acc[n] += d_w d q_w q (+ m_w X), for a block of 32 columns.
template <TensorType kType, uint32_t kColumns>
__device__ inline void add_quantised_block(const DeviceMatrix& matrix, uint32_t tile, uint32_t block,
                                           const ReadyRows& in, const uint32_t (&rows)[kColumns],
                                           float (&acc)[kColumns]) {
  using Scales = BlockScales<kType>;
  const StoredBlock<kType> stored(matrix, tile, block);
  const QuantBlockView<kType, StoredBlock<kType>> weights(stored, lane());
  uint32_t codes[8];
  weights.load_codes(codes);
  const Scales scales(weights);
  for (uint32_t n = 0; n < kColumns; ++n) {
    const size_t index = in.block_index(block, rows[n]);
    RowBlock x;
    x.first = in.quants.load<uint4>(index * kBlockColumns);
    x.second = in.quants.load<uint4>(index * kBlockColumns + 16);
    x.scale = in.scales[index];
    if constexpr (Scales::kHasTwoSums) {
      x.half_sums = in.half_sums[index];
    } else {
      x.scaled_sum = in.scaled_sums[index];
    }
    acc[n] = add_dots(acc[n], codes, scales, x);
  }
}

// acc[n] += w x, for a piece of 8 columns, or of 4 for F32.
template <TensorType kType, uint32_t kColumns>
__device__ inline void add_float_piece(const DeviceMatrix& matrix, uint32_t tile, uint32_t piece,
                                       uint32_t num_pieces, const ReadyRows& in,
                                       const uint32_t (&rows)[kColumns], float (&acc)[kColumns]) {
  constexpr uint32_t kPieceColumns = kType == TensorType::kF32 ? 4 : 8;
  const uint4 bits = matrix.quants.load_read_only<uint4>(piece_index(tile, num_pieces, piece, lane()));
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  for (uint32_t n = 0; n < kColumns; ++n) {
    const size_t first = static_cast<size_t>(rows[n]) * in.stride + piece * kPieceColumns;
    for (uint32_t quad = 0; quad < kPieceColumns / 4; ++quad) {
      const auto x4 = in.values.load<float4>(first + 4 * quad);
      const float x[4] = {x4.x, x4.y, x4.z, x4.w};
      for (uint32_t i = 0; i < 4; ++i) {
        float weight;
        if constexpr (kType == TensorType::kF16) {
          weight = from_half(static_cast<uint16_t>(words[2 * quad + i / 2] >> (16 * (i % 2))));
        } else if constexpr (kType == TensorType::kBF16) {
          weight = std::bit_cast<float>(words[2 * quad + i / 2] >> (16 * (i % 2)) << 16);
        } else {
          weight = std::bit_cast<float>(words[i]);
        }
        acc[n] = std::fma(weight, x[i], acc[n]);
      }
    }
  }
}

template <TensorType kType, uint32_t kColumns>
__device__ inline void add_segment(const DeviceMatrix& matrix, uint32_t tile, uint32_t segment,
                                   const ReadyRows& in, const uint32_t (&rows)[kColumns],
                                   float (&acc)[kColumns]) {
  // Number of pieces or blocks whose weights are all loaded before the first is used. The rows of the batch
  // that they are multiplied by take up to 64 registers.
  [[maybe_unused]] constexpr uint32_t kAtOnce = kColumns <= 2 ? 4 : 8 / kColumns;
  if constexpr (!is_quantised(kType)) {
    constexpr uint32_t kPieceColumns = kType == TensorType::kF32 ? 4 : 8;
    constexpr uint32_t kSegmentPieces = kSegmentColumns / kPieceColumns;
    const uint32_t num_pieces = (matrix.columns + kPieceColumns - 1) / kPieceColumns;
    const uint32_t first = segment * kSegmentPieces;
    const uint32_t end = std::min(first + kSegmentPieces, num_pieces);
#pragma unroll kAtOnce
    for (uint32_t piece = first; piece < end; ++piece)
      add_float_piece<kType>(matrix, tile, piece, num_pieces, in, rows, acc);
  } else {
    const uint32_t num_blocks = matrix.columns / kBlockColumns;
    const uint32_t first = segment * kSegmentBlocks;
    const uint32_t end = std::min(first + kSegmentBlocks, num_blocks);
#pragma unroll kAtOnce
    for (uint32_t block = first; block < end; ++block)
      add_quantised_block<kType>(matrix, tile, block, in, rows, acc);
  }
}

inline constexpr uint32_t kMaxVectorWarps = 8;

template <uint32_t kColumns>
struct VectorProductMemory {
  static constexpr uint32_t kBytes = 4 * kMaxVectorWarps * kColumns * kWarpTileRows;
  Shared<float, kMaxVectorWarps * kColumns * kWarpTileRows> partials;
};

template <TensorType kType, uint32_t kColumnsOf>
struct VectorProduct {
  static constexpr ProductKind kKind = ProductKind::kVectors;
  static constexpr uint32_t kColumns = kColumnsOf;
  static constexpr uint32_t kMaxWarps = kMaxVectorWarps;
  static constexpr uint32_t kMaxThreads = kMaxWarps * kWarpSize;
  // Number of blocks that a multiprocessor must have room for, which leaves 128 registers to a thread.
  // Without this number the compiler saves registers: it loads each piece right before its use, and so waits
  // for one load after the other.
  static constexpr uint32_t kMinBlocks = 2;
  static_assert(kColumns <= kMaxWarps);

  using Memory = VectorProductMemory<kColumns>;

  // A block has a warp for each segment, at least one for each column, and at most kMaxWarps.
  static uint32_t num_threads(uint32_t num_columns) {
    const uint32_t num_segments = (num_columns + kSegmentColumns - 1) / kSegmentColumns;
    return std::clamp(num_segments, kColumns, kMaxWarps) * kWarpSize;
  }

  // The products of the tile's row lane() and the batch's row first_row + warp(). They have no meaning for
  // rows beyond num_rows and in warps from kColumns on. All threads of the block must call it.
  __device__ static float compute(const DeviceMatrix& matrix, uint32_t tile, const ReadyRows& in,
                                  uint32_t first_row, uint32_t num_rows, Memory& memory) {
    wait_for_previous();
    const uint32_t num_segments = (matrix.columns + kSegmentColumns - 1) / kSegmentColumns;
    const uint32_t num_warps = blockDim.x / kWarpSize;
    uint32_t rows[kColumns];
    for (uint32_t n = 0; n < kColumns; ++n) rows[n] = std::min(first_row + n, num_rows - 1);

    float total = 0.0f;
    for (uint32_t first = 0; first < num_segments; first += num_warps) {
      const uint32_t segment = first + warp();
      if (segment < num_segments) {
        float acc[kColumns] = {};
        add_segment<kType>(matrix, tile, segment, in, rows, acc);
        for (uint32_t n = 0; n < kColumns; ++n)
          memory.partials[(warp() * kColumns + n) * kWarpTileRows + lane()] = acc[n];
      }
      sync_block();
      if (warp() < kColumns) {
        const uint32_t count = std::min(num_warps, num_segments - first);
        for (uint32_t s = 0; s < count; ++s)
          total = total + memory.partials[(s * kColumns + warp()) * kWarpTileRows + lane()];
      }
      sync_block();
    }
    return total;
  }
};

}  // namespace runnel
