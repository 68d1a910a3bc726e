// What the kernels of products read and write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runner/formats/tensor_type.h"

namespace runnel {

// Weights are held in tiles of 32 rows, whose products are a block of the next product's columns; a lane of a
// vector is a row.
inline constexpr uint32_t kTileRows = 32;
// Blocks of columns that share a scale.
inline constexpr uint32_t kBlockColumns = 32;

// A matrix in tiles, see matrix.h for the layout.
struct TiledWeights {
  TensorType type;
  const std::byte* tiles;
  size_t tile_bytes;
  // In a tile; its scales come first.
  size_t minima_offset;
  size_t weights_offset;
  uint32_t columns;
};

// Rows of an activation, ready for a product (docs/numerics.md).
struct Columns {
  const float* values;        // (num_columns, stride)
  const int8_t* quants;       // (num_columns, stride)
  const float* scales;        // (num_columns, blocks_stride): d of each block
  const float* sums;          // the same: X
  const int32_t* quant_sums;  // the same: of its quants
  size_t stride;
  size_t blocks_stride;
  uint32_t num_columns;
};

// Where a row's blocks go.
struct ReadyBlocks {
  int8_t* quants;
  float* scales;
  float* sums;
  int32_t* quant_sums;
};

}  // namespace runnel
