// The product of some tiles of 32 rows of a matrix of floats and 8 to 128 rows of the batch. Weights and rows
// go through a ring in shared memory, and each thread multiplies up to 8 rows of the matrix by up to 8 of the
// batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/float_stages-inl.h"

namespace runnel {

// kColumns: rows of the batch. A block has kGroups groups of kGroupWarps warps, each with a ring of its own.
// The groups take the segments of 256 columns in turn, and their sums are added in order.
template <TensorType kType, uint32_t kTilesOf, uint32_t kColumnsOf, uint32_t kGroupWarps, uint32_t kGroupsOf>
struct FloatTileProduct {
  static constexpr ProductKind kKind = ProductKind::kTiles;
  // Its loop needs so many registers that more code behind it makes it longer.
  static constexpr bool kHasShortEnd = true;
  static constexpr uint32_t kTiles = kTilesOf;
  static constexpr uint32_t kColumns = kColumnsOf;
  static constexpr uint32_t kGroups = kGroupsOf;
  static constexpr uint32_t kWarps = kGroups * kGroupWarps;
  static constexpr uint32_t kMaxThreads = kWarps * kWarpSize;

  using Layout = FloatStageLayout<kType, kTiles, kColumns>;
  using Stager = FloatStager<kType, kTiles, kColumns, kGroupWarps>;

  // The part of a warp, and of a lane: rows lane_row() + 8i of the first kWarpRows of the matrix's, and rows
  // lane_column() + 4j of the batch's.
  static constexpr uint32_t kWarpRows = std::min(Layout::kMatrixRows, 64u);
  static constexpr uint32_t kRowParts = Layout::kMatrixRows / kWarpRows;
  static constexpr uint32_t kWarpColumns = kColumns * kRowParts / kGroupWarps;
  static constexpr uint32_t kLaneRows = kWarpRows / 8;
  static constexpr uint32_t kLaneColumns = kWarpColumns / 4;
  static constexpr uint32_t kLaneSums = kLaneRows * kLaneColumns;
  static_assert(kLaneColumns * 4 * kGroupWarps == kColumns * kRowParts);
  // 64 sums need more than 128 registers, which leaves room for 8 warps on a multiprocessor; others 16.
  static constexpr uint32_t kMinBlocks = (kLaneSums > 32 ? 8 : 16) / kWarps;
  static_assert(kMinBlocks > 0);

  // Several warps widen the weights of the next stage while they multiply those of this one. One warp meets
  // itself at little cost, and has one buffer, so that more fit.
  static constexpr uint32_t kAhead = Layout::kIsWidened && kGroupWarps > 1 ? 1 : 0;
  static constexpr uint32_t kBuffers = Layout::kIsWidened ? 1 + kAhead : 0;
  // A warp with few rows waits for the memory rather than for arithmetic. Two stages of F32 are as many bytes
  // on their way as four of the others.
  static constexpr uint32_t kStages = kGroupWarps == 1 && kColumns <= 16 && Layout::kIsWidened ? 4 : 3;

  // Of each group the buffers of widened weights and the ring, and then of each group its sums: (row of the
  // batch, row of the matrix). With this stride the lanes of a warp, which store 8 rows of the matrix and 4
  // of the batch, are in different banks.
  static constexpr uint32_t kRingAt = kBuffers * Layout::kWeights;
  static constexpr uint32_t kGroupFloats = kRingAt + kStages * Layout::kFloats;
  static constexpr uint32_t kSumStride = Layout::kMatrixRows + 8;
  static constexpr uint32_t kGroupSums = kColumns * kSumStride;
  static constexpr uint32_t kSumsAt = kGroups * kGroupFloats;
  struct Memory {
    static constexpr uint32_t kBytes = 4 * (kSumsAt + kGroups * kGroupSums);
    Shared<float, kSumsAt + kGroups * kGroupSums> floats;
  };

  // When it returns, result() has the products, for all threads. All threads of the block must call it.
  __device__ static void compute(const BlockTiles& tiles, const ReadyRows& in, uint32_t first_row,
                                 uint32_t num_rows, Memory& memory) {
    const uint32_t num_columns = tiles.first.columns;
    const Stager stager(tiles, in, first_row, num_rows);
    const size_t first_buffer = group() * kGroupFloats;
    const size_t ring = first_buffer + kRingAt;
    // Weights need not wait for the launch before this one.
    uint32_t column = group() * kSegmentColumns;  // of the stage that is copied next
    for (uint32_t stage = 0; stage + 1 < kStages; ++stage, column = next(column))
      if (column < num_columns) stager.copy_weights(column, memory.floats, ring + stage * Layout::kFloats);
    wait_for_previous();
    column = group() * kSegmentColumns;
    for (uint32_t stage = 0; stage + 1 < kStages; ++stage, column = next(column)) {
      if (column < num_columns) stager.copy_rows(column, memory.floats, ring + stage * Layout::kFloats);
      commit_copies();
    }
    if constexpr (kAhead > 0) {
      wait_copies<kStages - 2>();
      if (group() * kSegmentColumns < num_columns) Stager::widen(memory.floats, ring, first_buffer);
    }

    constexpr uint32_t kRoundColumns = kGroups * kSegmentColumns;
    uint32_t slot = 0;
    float totals[kTiles][kOwned] = {};
    for (uint32_t round = 0; round < num_columns; round += kRoundColumns) {
      const uint32_t begin = round + group() * kSegmentColumns;
      float sums[kLaneColumns][kLaneRows] = {};
      // All groups go through the stages together, since their threads meet.
      for (uint32_t c = 0; c < kSegmentColumns && round + c < num_columns; c += Layout::kStageColumns) {
        wait_copies<kStages - 2 - kAhead>();
        meet();
        // To where the stage before this one was, which all threads have read.
        const uint32_t free_slot = slot == 0 ? kStages - 1 : slot - 1;
        const uint32_t next_slot = slot + 1 == kStages ? 0 : slot + 1;
        if (column < num_columns) {
          stager.copy_weights(column, memory.floats, ring + free_slot * Layout::kFloats);
          stager.copy_rows(column, memory.floats, ring + free_slot * Layout::kFloats);
        }
        commit_copies();
        column = next(column);
        const size_t stage = ring + slot * Layout::kFloats;
        size_t weights = stage;
        if constexpr (kAhead > 0) {
          const size_t odd = c / Layout::kStageColumns % 2 * Layout::kWeights;
          weights = first_buffer + odd;
          if (next(begin + c) < num_columns)
            Stager::widen(memory.floats, ring + next_slot * Layout::kFloats,
                          first_buffer + Layout::kWeights - odd);
        } else if constexpr (Layout::kIsWidened) {
          weights = first_buffer;
          if (begin + c < num_columns) Stager::widen(memory.floats, stage, weights);
          meet();
        }
        if (begin + c < num_columns) add_stage(memory, weights, stage + Layout::kRowsAt, sums);
        slot = next_slot;
      }
      add_in_order(sums, round, num_columns, memory, totals);
    }
    if constexpr (kGroups > 1) {
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (uint32_t j = 0; j < kOwned; ++j) memory.floats[owned_place(0, tile, j)] = totals[tile][j];
    }
    sync_block();
  }

  // The product of row lane() of the block's tile `tile` and row first_row + `row` of the batch.
  __device__ static float result(Memory& memory, uint32_t tile, uint32_t row) {
    return memory.floats[kSumsAt + row * kSumStride + tile * kWarpTileRows + lane()];
  }
  // Those of four rows of the tile, from `column` on.
  __device__ static float4 results(Memory& memory, uint32_t tile, uint32_t row, uint32_t column) {
    return memory.floats.template load<float4>(kSumsAt + row * kSumStride + tile * kWarpTileRows + column);
  }

 private:
  // With several groups, warps have the totals of rows warp() + kWarps j of the batch.
  static constexpr uint32_t kOwned = kGroups == 1 ? 1 : kColumns / kWarps;
  static_assert(kGroups == 1 || kOwned * kWarps == kColumns);
  static_assert(kSegmentColumns / Layout::kStageColumns % 2 == 0);  // a segment begins with the first buffer

  __device__ static uint32_t group() {
    return warp() / kGroupWarps;
  }
  __device__ static uint32_t warp_of_group() {
    return warp() % kGroupWarps;
  }
  // So the lanes beside a lane read the same row of the matrix, and those two further on the same row of the
  // batch: then the quarters of half a warp are one turn of shared memory.
  __device__ static uint32_t lane_row() {
    return warp_of_group() % kRowParts * kWarpRows + lane() / 2 % 8;
  }
  __device__ static uint32_t lane_column() {
    return warp_of_group() / kRowParts * kWarpColumns + lane() % 2 + lane() / 16 * 2;
  }
  // The column of the group's stage after the one of this column.
  __device__ static uint32_t next(uint32_t column) {
    const uint32_t after = column + Layout::kStageColumns;
    return after % kSegmentColumns == 0 ? after + (kGroups - 1) * kSegmentColumns : after;
  }
  // The threads that share a ring meet.
  __device__ static void meet() {
    if constexpr (kGroupWarps == 1) {
      sync_warp();
    } else {
      sync_block();
    }
  }

  // sums += the products of a stage, column by column.
  __device__ static void add_stage(Memory& memory, size_t weights, size_t rows,
                                   float (&sums)[kLaneColumns][kLaneRows]) {
    const size_t first_weight = weights + lane_row() * Layout::kStride;
    const size_t first_value = rows + lane_column() * Layout::kStride;
#pragma unroll
    for (uint32_t quad = 0; quad < Layout::kStageColumns; quad += 4) {
      float w[kLaneRows][4];
      for (uint32_t i = 0; i < kLaneRows; ++i)
        load_four(memory, first_weight + 8 * i * Layout::kStride + quad, w[i]);
#pragma unroll
      for (uint32_t j = 0; j < kLaneColumns; ++j) {
        float x[4];
        load_four(memory, first_value + 4 * j * Layout::kStride + quad, x);
        for (uint32_t k = 0; k < 4; ++k)
          for (uint32_t i = 0; i < kLaneRows; ++i) sums[j][i] = std::fma(w[i][k], x[k], sums[j][i]);
      }
    }
  }
  __device__ static void load_four(Memory& memory, size_t from, float (&to)[4]) {
    const auto four = memory.floats.template load<float4>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }

  // Adds each group's sums of its segment of the round, in order of the groups. One group keeps the totals in
  // memory, each thread those of its own sums.
  __device__ static void add_in_order(const float (&sums)[kLaneColumns][kLaneRows], uint32_t round,
                                      uint32_t num_columns, Memory& memory, float (&totals)[kTiles][kOwned]) {
    const bool has_segment = round + group() * kSegmentColumns < num_columns;
    if (has_segment) {
      for (uint32_t j = 0; j < kLaneColumns; ++j) {
        for (uint32_t i = 0; i < kLaneRows; ++i) {
          const size_t place =
              kSumsAt + group() * kGroupSums + (lane_column() + 4 * j) * kSumStride + lane_row() + 8 * i;
          if constexpr (kGroups == 1) {
            const float total = round == 0 ? 0.0f : float{memory.floats[place]};
            memory.floats[place] = total + sums[j][i];
          } else {
            memory.floats[place] = sums[j][i];
          }
        }
      }
    }
    if constexpr (kGroups > 1) {
      sync_block();
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (uint32_t j = 0; j < kOwned; ++j) {
          float of_groups[kGroups];
          for (uint32_t g = 0; g < kGroups; ++g)
            of_groups[g] = round + g * kSegmentColumns < num_columns
                               ? float{memory.floats[owned_place(g, tile, j)]}
                               : 0.0f;
          for (uint32_t g = 0; g < kGroups; ++g)
            if (round + g * kSegmentColumns < num_columns) totals[tile][j] = totals[tile][j] + of_groups[g];
        }
      }
      sync_block();
    }
  }
  __device__ static size_t owned_place(uint32_t group_of_sums, uint32_t tile, uint32_t j) {
    return kSumsAt + group_of_sums * kGroupSums + (warp() + kWarps * j) * kSumStride + tile * kWarpTileRows +
           lane();
  }
};

}  // namespace runnel
