// Rows that are ready for a product: their values, and each block of 32 values as signed bytes with a scale
// (docs/numerics.md, "Activations that are ready for a product"). Products with float weights read the
// values, products with quantised weights read the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

inline constexpr uint32_t kBlockColumns = 32;

// Products with tensor cores read whole groups of up to this many rows, so memory for bytes has a multiple of
// it.
inline constexpr uint32_t kRowGroup = 128;

// Of what is stored for a block of 32 columns, the rows of the batch are adjacent: a load of a warp for 8
// rows reads one contiguous range. With t and i below 4, byte 8t + i of a block is column 4t + i, and byte
// 8t + 4 + i is column 16 + 4t + i, so that 8 adjacent bytes are a lane's part of an operand of mma_s8.
struct ReadyRows {
  Global<float> values;       // (num_rows, stride); zeros from width on
  Global<int8_t> quants;      // (stride / 32, row_capacity, 32)
  Global<float> scales;       // (stride / 32, row_capacity)
  Global<float> scaled_sums;  // the same shape: the sum of the block's bytes, times the scale
  Global<int32_t> half_sums;  // the same shape: the sums of columns 0 to 15 (lower half) and of the others
  uint32_t width;
  uint32_t stride;        // width, rounded up to a multiple of 32
  uint32_t row_capacity;  // a multiple of kRowGroup; rows that were never stored are zeros

  // The index of a row's block among scales and sums. Its bytes begin at 32 times the index.
  __host__ __device__ size_t block_index(uint32_t block, uint32_t row) const {
    return static_cast<size_t>(block) * row_capacity + row;
  }
};

// The column of byte `byte` of a block.
__host__ __device__ constexpr uint32_t ready_column(uint32_t byte) {
  return byte / 8 * 4 + byte % 4 + byte % 8 / 4 * 16;
}
__host__ __device__ constexpr uint32_t ready_byte(uint32_t column) {
  return column % 16 / 4 * 8 + column / 16 * 4 + column % 4;
}

}  // namespace runnel
