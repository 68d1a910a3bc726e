// The product of a tile of 32 rows of a quantised matrix and 64 rows of the batch, by tensor cores. The sums
// inside a block of 32 columns are whole numbers, so that they are those of vector_product-inl.h, and
// everything after them is the same operations in the same order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/vector_product-inl.h"

namespace runnel {

struct TensorProduct {
  static constexpr uint32_t kColumns = 64;
  static constexpr uint32_t kScratch = 1;  // none
  // Two halves of the tile's rows, two halves of the columns.
  static constexpr uint32_t kMaxThreads = 4 * kWarpSize;
  static constexpr uint32_t kMinBlocks = 4;   // 128 registers a thread, as in VectorProduct
  static constexpr uint32_t kWarpGroups = 4;  // of 8 columns

  static uint32_t num_threads(uint32_t) { return kMaxThreads; }

  // What a lane holds of a block: see mma_s8.
  template <TensorType kType>
  __device__ static void load_weights(const DeviceMatrix& matrix, uint32_t tile, uint32_t block,
                                      uint32_t num_blocks, uint32_t row, uint32_t (&a)[4], float (&scale)[2],
                                      float (&minimum)[2]) {
    const uint32_t word = lane() % 4;
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t r = row + 8 * half;
      const size_t scale_index = (static_cast<size_t>(tile) * num_blocks + block) * kWarpTileRows + r;
      if constexpr (kType == TensorType::kQ8_0) {
        a[half] =
            matrix.quants.load_read_only<uint32_t>(piece_index(tile, 2 * num_blocks, 2 * block, r) + word);
        a[2 + half] = matrix.quants.load_read_only<uint32_t>(
            piece_index(tile, 2 * num_blocks, 2 * block + 1, r) + word);
      } else {
        constexpr uint32_t kMask = 0x0f0f0f0f;
        const uint32_t nibbles =
            matrix.quants.load_read_only<uint32_t>(piece_index(tile, num_blocks, block, r) + word);
        a[half] = nibbles & kMask;
        a[2 + half] = (nibbles >> 4) & kMask;
      }
      if constexpr (kType == TensorType::kQ4_1) {
        const auto both = matrix.scales.load_read_only<uint32_t>(2 * scale_index);
        scale[half] = from_half(static_cast<uint16_t>(both & 0xffff));
        minimum[half] = from_half(static_cast<uint16_t>(both >> 16));
      } else {
        scale[half] = from_half(matrix.scales.load_read_only<uint16_t>(scale_index));
        minimum[half] = 0.0f;
      }
    }
  }

  template <TensorType kType>
  __device__ static void compute_warp(const DeviceMatrix& matrix, uint32_t tile, const ReadyRows& in,
                                      uint32_t first_row, uint32_t num_rows, uint32_t row_in_tile,
                                      float (&total)[kWarpGroups][4]) {
    const uint32_t num_blocks = matrix.columns / kBlockColumns;
    const uint32_t in_group = lane() / 4;    // whose bytes of the batch's rows this lane holds
    const uint32_t pair = 2 * (lane() % 4);  // whose sums it holds
    for (uint32_t first = 0; first < num_blocks; first += kSegmentBlocks) {
      float acc[kWarpGroups][4] = {};
      const uint32_t end = std::min(first + kSegmentBlocks, num_blocks);
      for (uint32_t block = first; block < end; ++block) {
        uint32_t a[4];
        float scale[2];
        float minimum[2];
        load_weights<kType>(matrix, tile, block, num_blocks, row_in_tile, a, scale, minimum);
        for (uint32_t group = 0; group < kWarpGroups; ++group) {
          const uint32_t b_row = std::min(first_row + 8 * group + in_group, num_rows - 1);
          const size_t b_index =
              static_cast<size_t>(b_row) * in.stride + block * kBlockColumns + 4 * (lane() % 4);
          const uint32_t b[2] = {in.quants.load<uint32_t>(b_index), in.quants.load<uint32_t>(b_index + 16)};
          int32_t sums[4] = {};
          mma_s8(sums, a, b);
          for (uint32_t j = 0; j < 2; ++j) {
            const uint32_t row = std::min(first_row + 8 * group + pair + j, num_rows - 1);
            const size_t index = static_cast<size_t>(row) * (in.stride / kBlockColumns) + block;
            const float x_scale = in.scales[index];
            const int32_t x_sum = kType == TensorType::kQ8_0 ? 0 : in.sums[index];
            for (uint32_t half = 0; half < 2; ++half) {
              int32_t sum = sums[2 * half + j];
              if constexpr (kType == TensorType::kQ4_0) sum -= 8 * x_sum;
              float& to = acc[group][2 * half + j];
              to = std::fma(scale[half] * x_scale, static_cast<float>(sum), to);
              if constexpr (kType == TensorType::kQ4_1)
                to = std::fma(minimum[half], x_scale * static_cast<float>(x_sum), to);
            }
          }
        }
      }
      for (uint32_t group = 0; group < kWarpGroups; ++group) {
        for (uint32_t i = 0; i < 4; ++i) total[group][i] = total[group][i] + acc[group][i];
      }
    }
  }

  // As VectorProduct::compute, for quantised matrices.
  __device__ static void compute(const DeviceMatrix& matrix, uint32_t tile, const ReadyRows& in,
                                 uint32_t first_row, uint32_t num_rows, Shared<float, kScratch>&,
                                 Shared<float, kColumns * kWarpTileRows>& out) {
    const uint32_t row_in_tile = 16 * (warp() / 2) + lane() / 4;
    const uint32_t first_column = 8 * kWarpGroups * (warp() % 2);
    float total[kWarpGroups][4] = {};
    switch (matrix.type) {
      case TensorType::kQ4_0:
        compute_warp<TensorType::kQ4_0>(matrix, tile, in, first_row + first_column, num_rows, row_in_tile,
                                        total);
        break;
      case TensorType::kQ4_1:
        compute_warp<TensorType::kQ4_1>(matrix, tile, in, first_row + first_column, num_rows, row_in_tile,
                                        total);
        break;
      case TensorType::kQ8_0:
        compute_warp<TensorType::kQ8_0>(matrix, tile, in, first_row + first_column, num_rows, row_in_tile,
                                        total);
        break;
      case TensorType::kF16:
      case TensorType::kF32:
        break;  // the launcher has another product for these
    }
    for (uint32_t group = 0; group < kWarpGroups; ++group) {
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t column = first_column + 8 * group + 2 * (lane() % 4) + i % 2;
        out[column * kWarpTileRows + row_in_tile + 8 * (i / 2)] = total[group][i];
      }
    }
    sync_block();
  }
};

}  // namespace runnel
