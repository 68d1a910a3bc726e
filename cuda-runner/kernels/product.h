// Products of weights and rows that are ready for them. Any number of rows gives each of them the same bits:
// docs/numerics.md has the order of the sums.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/ready_rows.h"
#include "runner/formats/tensor_type.h"
#include "runner/nonlinearity.h"

namespace runnel {

// Weights of a matrix are laid out in tiles of 32 rows, so that a warp holds a row a lane and each of its
// loads is one run of memory. The last tile, and the last block of columns, are filled up with zeros.
inline constexpr uint32_t kWarpTileRows = 32;
// Columns whose products are summed before they are added to the total.
inline constexpr uint32_t kSegmentColumns = 256;

// quants, of floats: pieces of 16 bytes, (tile, piece of the row, row in the tile): 8 or 4 columns.
// quants, of others: words of codes (QuantFormat), (tile, block of 32 columns, run, row in the tile, word): a
// row's words of low bits in runs of four, or of two where there are no more, then those of high bits.
// scales, of others: (tile, block, row in the tile): d as a half, or as the upper half of a float;
// d and m where there are minima. Where there
// are sub-scales d and m are those of 8 blocks, and behind them are (block, row in the tile) the two bytes of
// pack_sub_scales.
struct DeviceMatrix {
  TensorType type;
  uint32_t rows;
  uint32_t columns;
  Global<const uint32_t> quants;
  Global<const uint16_t> scales;
};

// (num_rows, stride) floats.
struct FloatRows {
  Global<float> values;
  uint32_t stride;
};

enum class Epilogue { kReplace, kAdd };

// out[row][first_output + i] = matrix row i times in's row, + bias[i] if has_bias, + what is there for
// kAdd.
cudaError_t multiply(const DeviceMatrix& matrix, const ReadyRows& in, uint32_t num_rows,
                     Global<const float> bias, bool has_bias, Epilogue epilogue, const FloatRows& out,
                     uint32_t first_output, cudaStream_t stream);

// out = f(gate in) x (up in), ready for a product. Both have out.width rows.
cudaError_t gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                           const ReadyRows& in, uint32_t num_rows, const ReadyRows& out, cudaStream_t stream);

// out = f(matrix in + bias, if has_bias), ready for a product. The matrix has out.width rows.
cudaError_t activated_multiply(const DeviceMatrix& matrix, Global<const float> bias, bool has_bias,
                               Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows,
                               const ReadyRows& out, cudaStream_t stream);

// Load the kernels: see load.h.
cudaError_t load_multiply();
cudaError_t load_gated_multiply();
cudaError_t load_activated_multiply();

}  // namespace runnel
