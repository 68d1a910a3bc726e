// The norms of rows of the batch, computed by a block of threads for its own product: in its shared memory,
// as ready rows are (ready_rows.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/norm_row-inl.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/staged_blocks-inl.h"

namespace runnel {

// Of kRows rows, for a product of weights of the type.
template <TensorType kType, uint32_t kRows>
struct NormedBlocks {
  using Layout = RowsLayout<kType, kRows, kMostNormedColumns / kBlockColumns>;
  static constexpr uint32_t kWords = Layout::kWords;

  // Stores the norms of the first kRows rows to memory from word `to` on. sums: a place for kNormWarps floats
  // a row, which may be used again when this returns. All threads of the block must call it, after
  // wait_for_previous().
  template <size_t kMemoryWords, size_t kSums>
  __device__ static void store(const NormedRows& in, uint32_t columns, uint32_t num_warps,
                               Shared<uint32_t, kMemoryWords>& memory, size_t to,
                               Shared<float, kSums>& sums) {
    static_assert(kRows * kNormWarps <= kSums);
    for (uint32_t n = 0; n < kRows; ++n) {
      for (uint32_t virtual_warp = warp(); virtual_warp < kNormWarps; virtual_warp += num_warps) {
        const RowLane<kHeld> row(in.rows, first(in, n), columns, virtual_warp * kWarpSize + lane());
        const float squares = tree_sum(row.sum([](float sum, float x) { return std::fma(x, x, sum); }));
        if (lane() == 0) sums[n * kNormWarps + virtual_warp] = squares;
      }
    }
    sync_block();
    for (uint32_t n = 0; n < kRows; ++n) {
      const float mean = sum_of_warps(sums, n * kNormWarps) / static_cast<float>(columns);
      store_row(in, n, 1.0f / std::sqrt(mean + in.epsilon), columns, num_warps, memory, to);
    }
    sync_block();
  }

 private:
  static constexpr uint32_t kHeld = kMostNormedColumns / kNormLanes;

  __device__ static size_t first(const NormedRows& in, uint32_t n) {
    return static_cast<size_t>(n) * in.rows.stride;
  }

  // A warp takes four blocks at a time.
  template <size_t kMemoryWords>
  __device__ static void store_row(const NormedRows& in, uint32_t n, float scale, uint32_t columns,
                                   uint32_t num_warps, Shared<uint32_t, kMemoryWords>& memory, size_t to) {
    constexpr uint32_t kColumnsOfWarp = kQuarterColumns * kWarpSize;
    for (uint32_t begin = warp() * kColumnsOfWarp; begin < columns; begin += num_warps * kColumnsOfWarp) {
      const uint32_t column = begin + kQuarterColumns * lane();
      const bool is_there = column < columns;
      float4 x{};
      float4 gain{};
      if (is_there) {
        x = in.rows.values.load<float4>(first(in, n) + column);
        gain = in.gain.load<float4>(column);
      }
      const ReadyQuarter quarter = ready_quarter(
          {x.x * scale * gain.x, x.y * scale * gain.y, x.z * scale * gain.z, x.w * scale * gain.w});
      if (!is_there) continue;
      const uint32_t block = column / kBlockColumns;
      const uint32_t in_block = column % kBlockColumns;
      memory[Layout::bytes(to, block) + (n * kBlockColumns + ready_byte(in_block)) / 4] = quarter.bytes;
      if (in_block != 0) continue;
      memory[Layout::scales(to, block) + n] = std::bit_cast<uint32_t>(quarter.scale);
      if constexpr (rows_extra<kType>() == RowsExtra::kScaledSums)
        memory[Layout::extra(to, block) + n] = std::bit_cast<uint32_t>(quarter.scaled_sum());
      if constexpr (rows_extra<kType>() == RowsExtra::kHalfSums)
        memory[Layout::extra(to, block) + n] = static_cast<uint32_t>(quarter.half_sums());
    }
  }
};

}  // namespace runnel
