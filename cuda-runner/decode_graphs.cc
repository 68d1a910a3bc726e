#include "cuda-runner/decode_graphs.h"

#include <algorithm>
#include <bit>

namespace runnel {

std::optional<uint32_t> DecodeGraphs::padded_rows(uint32_t num_rows) {
  constexpr uint32_t kStep = 16;
  if (num_rows == 0 || num_rows > kMaxGraphRows) return std::nullopt;
  if (num_rows <= kStep / 2) return std::bit_ceil(num_rows);
  return (num_rows + kStep - 1) / kStep * kStep;
}

uint32_t DecodeGraphs::num_sizes(uint32_t max_rows) {
  uint32_t count = 0;
  for (uint32_t rows = 1; rows <= std::min(max_rows, kMaxGraphRows); ++rows)
    count += padded_rows(rows) == rows;
  return count;
}

}  // namespace runnel
