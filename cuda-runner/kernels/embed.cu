#include <bit>

#include "cuda-runner/kernels/embed.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/vector_product-inl.h"
#include "runner/formats/weight_type.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 256;

template <TensorType kType>
__device__ inline float quantised_weight_at(const DeviceMatrix& matrix, uint32_t row, uint32_t column) {
  const StoredBlock<kType> stored(matrix, row / kWarpTileRows, column / kBlockColumns);
  const QuantBlockView<kType, StoredBlock<kType>> block(stored, row % kWarpTileRows);
  const BlockScales<kType> scales(block);
  const uint32_t in_block = column % kBlockColumns;
  uint32_t codes[2];
  block.load_two(in_block / 4 % 4, codes[0], codes[1]);
  const uint32_t half = in_block / 16;
  const auto multiplier = static_cast<int8_t>(static_cast<uint8_t>(codes[half] >> (8 * (in_block % 4))));
  const int32_t quant = multiplier >> Multiplier<scales.kFormat>::kShift;
  float scale = scales.scale;
  float minimum = scales.minimum;
  if constexpr (scales.kHasTwoSums) {
    scale = scale * static_cast<float>(scales.sub_scale(half));
    minimum = minimum * static_cast<float>(scales.sub_minimum(half));
  }
  const float weight = scale * static_cast<float>(quant);
  return scales.kFormat.has_minimum ? weight + minimum : weight;
}

__device__ inline float weight_at(const DeviceMatrix& matrix, uint32_t row, uint32_t column) {
  const uint32_t tile = row / kWarpTileRows;
  const uint32_t row_in_tile = row % kWarpTileRows;
  return with_weight_type(matrix.type, [&](auto type) -> float {
    constexpr TensorType kType = type;
    if constexpr (is_quantised(kType)) {
      return quantised_weight_at<kType>(matrix, row, column);
    } else if constexpr (kType == TensorType::kF32) {
      const size_t first = piece_index(tile, (matrix.columns + 3) / 4, column / 4, row_in_tile);
      return std::bit_cast<float>(matrix.quants[first + column % 4]);
    } else {
      const size_t first = piece_index(tile, (matrix.columns + 7) / 8, column / 8, row_in_tile);
      const uint32_t word = matrix.quants[first + column % 8 / 2];
      const auto bits = static_cast<uint16_t>(word >> (16 * (column % 2)));
      return kType == TensorType::kF16 ? from_half(bits)
                                       : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
  });
}

// Grid x: rows of the batch; y: groups of 256 columns.
__global__ void __launch_bounds__(kThreads)
    embed_kernel(EmbeddingTables tables, Global<const uint32_t> token_ids, Global<const uint32_t> positions,
                 FloatRows out) {
  let_next_begin();
  wait_for_previous();
  const uint32_t row = blockIdx.x;
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  const uint32_t token = token_ids[row] - tables.first_token;
  if (column >= tables.tokens.columns || token >= tables.tokens.rows) return;
  float value = weight_at(tables.tokens, token, column);
  if (tables.scale != 1.0f) value = value * tables.scale;
  if (tables.has_positions) value = value + weight_at(tables.positions, positions[row], column);
  out.values[static_cast<size_t>(row) * out.stride + column] = value;
}

// The same grid.
__global__ void __launch_bounds__(kThreads)
    take_rows_kernel(uint32_t first_token, uint32_t num_tokens, Global<const uint32_t> token_ids,
                     FloatRows in, uint32_t width, FloatRows out) {
  let_next_begin();
  wait_for_previous();
  const size_t row = blockIdx.x;
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= width || token_ids[row] - first_token >= num_tokens) return;
  out.values[row * out.stride + column] = float{in.values[row * in.stride + column]};
}

}  // namespace

cudaError_t embed(const EmbeddingTables& tables, Global<const uint32_t> token_ids,
                  Global<const uint32_t> positions, uint32_t num_rows, const FloatRows& out,
                  cudaStream_t stream) {
  const cudaLaunchConfig_t config =
      config_of(dim3(num_rows, divide_up(tables.tokens.columns, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, embed_kernel, tables, token_ids, positions, out);
}

cudaError_t take_rows_of(uint32_t first_token, uint32_t num_tokens, Global<const uint32_t> token_ids,
                         const FloatRows& in, uint32_t num_rows, uint32_t width, const FloatRows& out,
                         cudaStream_t stream) {
  const cudaLaunchConfig_t config = config_of(dim3(num_rows, divide_up(width, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, take_rows_kernel, first_token, num_tokens, token_ids, in, width, out);
}

cudaError_t load_embed() {
  return load_all(embed_kernel, take_rows_kernel);
}

}  // namespace runnel
