// The queries of a tile: those of consecutive rows of a sequence that share a KV head.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/attend_work.h"

namespace runnel {

struct TileQueries {
  const AttendTile rows;
  const uint32_t window;
  const uint32_t kv_head;
  const uint32_t per_kv_head;

  __device__ uint32_t count() const { return rows.num_rows * per_kv_head; }
  // A query that is missing is a copy of the last one.
  __device__ uint32_t nearest(uint32_t query) const { return std::min(query, count() - 1); }
  __device__ uint32_t row_of(uint32_t query) const { return rows.first_row + nearest(query) / per_kv_head; }
  __device__ uint32_t head_of(uint32_t query) const {
    return kv_head * per_kv_head + nearest(query) % per_kv_head;
  }
  __device__ uint32_t position_of(uint32_t query) const {
    return rows.first_position + nearest(query) / per_kv_head;
  }
  // Of all rows together. In registers it would be alive all the time.
  __device__ Positions seen() const {
    const uint32_t first = recomputed(rows.first_position);
    return {seen_from(first, window).begin, first + rows.num_rows};
  }
  __device__ bool all_see(uint32_t first) const {
    const uint32_t last_position = rows.first_position + rows.num_rows - 1;
    return first >= seen_from(last_position, window).begin &&
           first + kTilePositions <= rows.first_position + 1;
  }
};

}  // namespace runnel
