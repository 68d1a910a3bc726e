// The sums of a row that its norm needs (docs/numerics.md, "Norm").
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {

// Virtual lanes of a reduction.
inline constexpr uint32_t kNormLanes = 256;
inline constexpr uint32_t kNormWarps = kNormLanes / kWarpSize;

// The values of a row of a virtual lane: lane, lane + 256, ... All loads are under way before the first value
// is used, of the first kHeld; what is beyond is read once more.
template <uint32_t kHeld>
class RowLane {
 public:
  __device__ RowLane(const FloatRows& in, size_t first, uint32_t width, uint32_t lane)
      : in_(in), first_(first), width_(width), lane_(lane) {
#pragma unroll
    for (uint32_t begin = 0; begin < kHeld; begin += kHeldTogether) {
      if (begin * kNormLanes >= width) break;
#pragma unroll
      for (uint32_t i = begin; i < begin + kHeldTogether; ++i)
        held_[i] = column(i) < width ? float{in.values[first + column(i)]} : 0.0f;
    }
  }

  // From 0, sum = add(sum, x) for the values x in order.
  template <typename Add>
  __device__ float sum(const Add& add) const {
    float sum = 0.0f;
#pragma unroll
    for (uint32_t begin = 0; begin < kHeld; begin += kHeldTogether) {
      if (begin * kNormLanes >= width_) break;
#pragma unroll
      for (uint32_t i = begin; i < begin + kHeldTogether; ++i)
        if (column(i) < width_) sum = add(sum, held_[i]);
    }
#pragma unroll 1
    for (uint32_t i = column(kHeld); i < width_; i += kNormLanes) sum = add(sum, in_.values[first_ + i]);
    return sum;
  }

 private:
  static constexpr uint32_t kHeldTogether = 8;

  __device__ uint32_t column(uint32_t i) const {
    return i * kNormLanes + lane_;
  }

  const FloatRows& in_;
  const size_t first_;
  const uint32_t width_;
  const uint32_t lane_;
  float held_[kHeld];
};

// The sum of those of the virtual warps, which begin at `first`, a multiple of 4.
template <size_t kMemoryFloats>
__device__ inline float sum_of_warps(Shared<float, kMemoryFloats>& sums, size_t first) {
  static_assert(kNormWarps == 8);
  const auto low = sums.template load<float4>(first);
  const auto high = sums.template load<float4>(first + 4);
  return ((low.x + high.x) + (low.z + high.z)) + ((low.y + high.y) + (low.w + high.w));
}

}  // namespace runnel
