// Joins the splits of a row for a group of queries, in order (docs/numerics.md). The block that computes the
// last of them does that.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/attend_variants.h"

namespace runnel {

// Factors: of at least kQueries * kAttendSplit floats.
template <uint32_t kQueries, uint32_t kWarps, typename Factors>
struct SplitsJoin {
  // Splits of a column that are loaded together.
  static constexpr uint32_t kTogether = std::max(16 / kQueries, 4u);
  using Columns = float[kTogether][kQueries];

  const AttendInputs& in;
  const SplitResults& results;
  const QueryGroup& group;
  uint32_t first_place;
  uint32_t num_splits;
  // (query, split): the factors of a split, the sum of its weights times its factor, and the largest score up
  // to it, for 32 splits at a time.
  Factors& factors;
  uint32_t thread = recomputed(threadIdx.x);

  // y: the joined sums of column threadIdx.x. All threads of the block must call it, and know that the
  // factors' memory is free. Queries that the group lacks are copies of its last one.
  __device__ void join(float (&y)[kQueries]) {
    float sums[kQueries];
    for (float& each : sums) each = in.has_sinks ? 1.0f : 0.0f;
    for (float& each : y) each = 0.0f;
#pragma unroll 1
    for (uint32_t begin = 0; begin < num_splits; begin += kWarpSize) {
      const uint32_t end = std::min(begin + kWarpSize, num_splits);
      Columns columns;
      load(begin, columns);
      if (begin > 0) sync_block();  // the factors before have been read
      for (uint32_t q = thread / kWarpSize; q < group.num_heads; q += kWarps)
        compute_factors(q, begin, end - begin);
      sync_block();
#pragma unroll 1
      for (uint32_t i = begin; i < end; i += kTogether) {
#pragma unroll
        for (uint32_t j = 0; j < kTogether; ++j) {
          if (i + j >= end) break;
          for (uint32_t q = 0; q < kQueries; ++q) {
            const auto f = factors.template load<float4>(at(std::min(q, group.num_heads - 1), i + j - begin));
            sums[q] = std::fma(sums[q], f.x, f.z);
            y[q] = joined(y[q], columns[j][q], {f.x, f.y});
          }
        }
        if (i + kTogether < end) load(i + kTogether, columns);
      }
    }
    for (uint32_t q = 0; q < kQueries; ++q) y[q] = y[q] / sums[q];
  }

 private:
  __device__ static uint32_t at(uint32_t q, uint32_t split) {
    return q * kAttendSplit + 4 * split;
  }

  __device__ void load(uint32_t split, Columns& columns) {
    const uint32_t column = std::min(thread, results.head_dim - 1);
    for (uint32_t j = 0; j < kTogether; ++j) {
      const bool is_there = split + j < num_splits;
      const uint32_t place = first_place + split + j;
      for (uint32_t q = 0; q < kQueries; ++q) {
        const uint32_t head = group.first_head + std::min(q, group.num_heads - 1);
        columns[j][q] = is_there ? float{results.values[results.first(place, head) + 2 + column]} : 0.0f;
      }
    }
  }

  // Each lane computes the factors of a split. All lanes of a warp must call it.
  __device__ void compute_factors(uint32_t q, uint32_t begin, uint32_t count) {
    const size_t own = results.first(first_place + begin + std::min(lane(), count - 1), group.first_head + q);
    const float own_max = results.values[own];
    const float own_sum = results.values[own + 1];
    const float max =
        begin == 0 ? before_splits(in, group.first_head + q).max : float{factors[at(q, kWarpSize - 1) + 3]};
    float max_with = std::fmax(max, own_max);  // of all splits up to this lane's
#pragma unroll 1
    for (uint32_t distance = 1; distance < count; distance *= 2)
      max_with = std::fmax(max_with, shuffle(max_with, lane() < distance ? 0 : lane() - distance));
    const float neighbour = shuffle(max_with, lane() == 0 ? 0 : lane() - 1);
    const float max_before = lane() == 0 ? max : neighbour;
    const float factor = exp_f32(own_max - max_with);
    sync_warp();  // all lanes have read the maximum before
    factors.template store<float4>(
        at(q, lane()), float4{exp_f32(max_before - max_with), factor, own_sum * factor, max_with});
  }
};

}  // namespace runnel
