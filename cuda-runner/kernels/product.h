// Products of weight matrices and rows that are ready for a product (ready_rows.h). The bits of a row's
// results do not depend on the number of rows; docs/numerics.md has the order of the sums.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/ready_rows.h"
#include "runner/backend/nonlinearity.h"
#include "runner/formats/tensor_type.h"

namespace runnel {

// A matrix is laid out in tiles of 32 rows. Each lane of a warp takes one row, so that each load of the warp
// is one contiguous range of memory. The last tile is padded with zeros.
inline constexpr uint32_t kWarpTileRows = 32;
// The products of this many columns are summed before the sum is added to the total.
inline constexpr uint32_t kSegmentColumns = 256;

// The weights of a matrix.
//
// Floats:
//   quants  (tile, piece of the row, row in the tile): pieces of 16 bytes, which are 4 columns of F32 or 8 of
//           F16 and BF16; the last piece is padded with zeros
//   scales  empty
//
// Quantised types:
//   quants  (tile, block of 32 columns, run, row in the tile, word): words of codes (QuantFormat), some bits
//           of which are flipped (device_codes.h). The words of low bits of a row are in runs of four, or of
//           two if there are only two; the words of high bits are the last run.
//   scales  without sub-scales (tile, block, row in the tile): d, and after it m if the type has minima. d is
//           a half, or the upper half of a float. With sub-scales d and m belong to 8 blocks: for each tile
//           and each 8 blocks first (row in the tile) d and m, then (block, row in the tile) the two bytes of
//           pack_sub_scales.
struct DeviceMatrix {
  TensorType type;
  uint32_t rows;
  uint32_t columns;
  Global<const uint32_t> quants;
  Global<const uint16_t> scales;
};

// Rows of floats: (num_rows, stride).
struct FloatRows {
  Global<float> values;
  uint32_t stride;
};

// Rows whose norm is multiplied: y = x / sqrt(mean(x^2) + epsilon) * gain. Each block of a product computes
// it for itself.
struct NormedRows {
  FloatRows rows;
  Global<const float> gain;
  float epsilon;
};

enum class Epilogue { kReplace, kAdd };

// How products are computed. The bits are the same. kBest: by the number of rows and the size of the matrix,
// where tiles need many of both.
enum class ProductForm { kBest, kSegments, kTiles, kNarrowTiles, kSplitTiles };

// out[row][first_output + i] = row i of the matrix times row `row` of in, + bias[first_output + i] if
// has_bias, + the previous value of the output for kAdd.
cudaError_t multiply(const DeviceMatrix& matrix, const ReadyRows& in, uint32_t num_rows,
                     Global<const float> bias, bool has_bias, Epilogue epilogue, const FloatRows& out,
                     uint32_t first_output, cudaStream_t stream, ProductForm form = ProductForm::kBest);

// out = f(gate in) * (up in), ready for a product. gate and up must have out.width rows.
cudaError_t gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                           const ReadyRows& in, uint32_t num_rows, const ReadyRows& out, cudaStream_t stream,
                           ProductForm form = ProductForm::kBest);

// out = f(matrix in), or f(matrix in + bias) if has_bias, ready for a product. The matrix must have out.width
// rows.
cudaError_t activated_multiply(const DeviceMatrix& matrix, Global<const float> bias, bool has_bias,
                               Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows,
                               const ReadyRows& out, cudaStream_t stream);

// The same for the norms of rows. The matrices must have a type and a width for which the product computes
// them for so many rows: one or two, if the weights are quantised.
inline constexpr uint32_t kMostNormedRows = 2;
inline constexpr uint32_t kMostNormedColumns = 2048;  // of wider rows each block would read too much
bool computes_norms(TensorType type, uint32_t columns, uint32_t num_rows);
cudaError_t multiply(const DeviceMatrix& matrix, const NormedRows& in, uint32_t num_rows,
                     Global<const float> bias, bool has_bias, const FloatRows& out, cudaStream_t stream);
// gate and up must be of the same type.
cudaError_t gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                           const NormedRows& in, uint32_t num_rows, const ReadyRows& out,
                           cudaStream_t stream);

// Load the kernels for a type of weights: see load.h.
cudaError_t load_multiply(TensorType type);
cudaError_t load_gated_multiply(TensorType type);

}  // namespace runnel
