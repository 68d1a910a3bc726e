#include <bit>

#include "cuda-runner/kernels/embed.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/vector_product-inl.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 256;

// Byte i of the words of a piece that begins at word first.
__device__ inline uint32_t byte_of(const DeviceMatrix& matrix, size_t first, uint32_t i) {
  return (matrix.quants[first + i / 4] >> (8 * (i % 4))) & 0xff;
}

__device__ inline float weight_at(const DeviceMatrix& matrix, uint32_t row, uint32_t column) {
  const uint32_t tile = row / kWarpTileRows;
  const uint32_t row_in_tile = row % kWarpTileRows;
  const uint32_t num_blocks = matrix.columns / kBlockColumns;  // of a quantised type
  const uint32_t block = column / kBlockColumns;
  const uint32_t in_block = column % kBlockColumns;
  const size_t scale = (static_cast<size_t>(tile) * num_blocks + block) * kWarpTileRows + row_in_tile;
  switch (matrix.type) {
    case TensorType::kF32: {
      const size_t first = piece_index(tile, (matrix.columns + 3) / 4, column / 4, row_in_tile);
      return std::bit_cast<float>(matrix.quants[first + column % 4]);
    }
    case TensorType::kF16: {
      const size_t first = piece_index(tile, (matrix.columns + 7) / 8, column / 8, row_in_tile);
      const uint32_t word = matrix.quants[first + column % 8 / 2];
      return from_half(static_cast<uint16_t>(word >> (16 * (column % 2))));
    }
    case TensorType::kQ8_0: {
      const size_t first = piece_index(tile, 2 * num_blocks, column / 16, row_in_tile);
      const auto quant = static_cast<int8_t>(byte_of(matrix, first, column % 16));
      return from_half(matrix.scales[scale]) * static_cast<float>(quant);
    }
    case TensorType::kQ4_0:
    case TensorType::kQ4_1: {
      const size_t first = piece_index(tile, num_blocks, block, row_in_tile);
      const uint32_t byte = byte_of(matrix, first, in_block % 16);
      const auto nibble = static_cast<int32_t>(in_block < 16 ? byte & 0xf : byte >> 4);
      if (matrix.type == TensorType::kQ4_0)
        return from_half(matrix.scales[scale]) * static_cast<float>(nibble - 8);
      return from_half(matrix.scales[2 * scale]) * static_cast<float>(nibble) +
             from_half(matrix.scales[2 * scale + 1]);
    }
  }
  return 0.0f;  // there is no other type
}

// x: rows of the batch; y: 256 columns.
__global__ void __launch_bounds__(kThreads)
    embed_kernel(EmbeddingTables tables, Global<const uint32_t> token_ids, Global<const uint32_t> positions,
                 FloatRows out) {
  const uint32_t row = blockIdx.x;
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= tables.tokens.columns) return;
  float value = weight_at(tables.tokens, token_ids[row], column);
  if (tables.scale != 1.0f) value = value * tables.scale;
  if (tables.has_positions) value = value + weight_at(tables.positions, positions[row], column);
  out.values[static_cast<size_t>(row) * out.stride + column] = value;
}

}  // namespace

cudaError_t embed(const EmbeddingTables& tables, Global<const uint32_t> token_ids,
                  Global<const uint32_t> positions, uint32_t num_rows, const FloatRows& out,
                  cudaStream_t stream) {
  const cudaLaunchConfig_t config =
      config_of(dim3(num_rows, divide_up(tables.tokens.columns, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, embed_kernel, tables, token_ids, positions, out);
}

cudaError_t load_embed() {
  return load_all(embed_kernel);
}

}  // namespace runnel
