// The data that the kernels of products read and write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu-runner/kernels/tile_layout.h"
#include "runner/formats/tensor_type.h"

namespace runnel {

// A matrix in tiles; see matrix.h for the layout.
struct TiledWeights {
  TensorType type;
  const std::byte* tiles;
  size_t tile_bytes;
  uint32_t columns;
};

// A block of a row as products read it: the values as signed bytes, their scale and their sums
// (docs/numerics.md).
struct ReadyBlock {
  int8_t quants[kBlockColumns];
  float scale;        // d
  float sum;          // X
  int32_t quant_sum;  // sum of the quants
  int32_t half_sums;  // sum of the first 16 quants in the lower 16 bits, of the others in the upper
};

// The same block of neighbouring rows. A product reads them together: one pointer is enough for all of its
// columns. Their number is a multiple of the columns of most register blocks.
inline constexpr uint32_t kPanelRows = 12;
struct alignas(64) ReadyPanel {
  ReadyBlock rows[kPanelRows];
};

// Rows of an activation, ready for a product, whose columns they are.
struct Columns {
  const float* values;       // of the activation: (rows, stride)
  const ReadyPanel* panels;  // of the activation: (rows / kPanelRows, num_blocks)
  size_t stride;
  size_t num_blocks;
  uint32_t first;  // row of the activation
  uint32_t count;
};

}  // namespace runnel
