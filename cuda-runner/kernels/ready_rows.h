// Rows that are ready for a product: their values, and each block of 32 as signed bytes with a scale
// (docs/numerics.md, "The arithmetic of cuda-runner"). Products with float weights read the values, others
// the bytes.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

inline constexpr uint32_t kBlockColumns = 32;

struct ReadyRows {
  Global<float> values;   // (num_rows, stride), continued by zeros from width on
  Global<int8_t> quants;  // (num_rows, stride)
  Global<float> scales;   // (num_rows, stride / 32)
  Global<int32_t> sums;   // (num_rows, stride / 32): of the block's bytes
  // The same of its first 16 bytes, in the lower half, and of the others, in the upper.
  Global<int32_t> half_sums;
  uint32_t width;
  uint32_t stride;  // width, rounded up to a multiple of 32
};

}  // namespace runnel
