// The variants of attention's kernel for one type of the cache.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/attend_variants.h"

namespace runnel {

template <uint32_t kQueriesOf, uint32_t kChunksOf>
struct AttendVariant {
  static constexpr uint32_t kQueries = kQueriesOf;  // number of queries that are computed together
  static constexpr uint32_t kChunks = kChunksOf;    // number of chunks of 32 columns in a head
};

template <uint32_t kQueries, typename Launch>
cudaError_t with_chunks(uint32_t head_dim, const Launch& launch) {
  if (attend_chunks(head_dim) == 2) return launch(AttendVariant<kQueries, 2>());
  if (attend_chunks(head_dim) == 4) return launch(AttendVariant<kQueries, 4>());
  if constexpr (kQueries <= 4) {
    return launch(AttendVariant<kQueries, 8>());
  } else {
    return cudaErrorInvalidValue;  // query_groups() makes no such groups
  }
}

// Calls launch with an AttendVariant for heads of this size and groups of this size.
template <typename Launch>
cudaError_t with_variant(uint32_t head_dim, uint32_t group_size, const Launch& launch) {
  if (group_size == 1) return with_chunks<1>(head_dim, launch);
  if (group_size == 2) return with_chunks<2>(head_dim, launch);
  if (group_size <= 4) return with_chunks<4>(head_dim, launch);
  return with_chunks<8>(head_dim, launch);
}

}  // namespace runnel
