// Loops over one row: norms, gates, caps, rotation.
#pragma once

#include "cpu-runner/kernels/exp-inl.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/wide-inl.h"
#include "runner/backend/nonlinearity.h"

namespace runnel::RUNNEL_KERNELS {

// Sums over a row, of x or of (x - mean)^2, with the 256 virtual lanes of docs/numerics.md and their tree.
struct SumOfValues {
  RUNNEL_INLINE_MEMBER Float8 add(Float8 lanes, Float8 x) const { return lanes + x; }
  RUNNEL_INLINE_MEMBER float add(float lane, float x) const { return lane + x; }
};
struct SumOfSquares {
  float mean;  // a mean of 0 changes no bits of a square
  RUNNEL_INLINE_MEMBER Float8 add(Float8 lanes, Float8 x) const {
    const Float8 d = x - broadcast(mean);
    return fma(d, d, lanes);
  }
  RUNNEL_INLINE_MEMBER float add(float lane, float x) const {
    const float d = x - mean;
    return __builtin_fmaf(d, d, lane);
  }
};

template <typename Sum>
RUNNEL_INLINE float sum_of_row(const float* x, uint32_t n, Sum sum) {
  constexpr uint32_t kVirtualLanes = 256;
  constexpr uint32_t kGroupLanes = 32;
  alignas(32) float lanes[kVirtualLanes] = {};
  for (uint32_t first = 0; first < n; first += kVirtualLanes) {
    const uint32_t count = n - first < kVirtualLanes ? n - first : kVirtualLanes;
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) store(lanes + i, sum.add(load(lanes + i), load(x + first + i)));
    for (; i < count; ++i) lanes[i] = sum.add(lanes[i], x[first + i]);
  }
  Float8 groups;
  for (uint32_t group = 0; group < kVirtualLanes / kGroupLanes; ++group) {
    const float* from = lanes + group * kGroupLanes;
    groups[group] = sum_lanes((load(from) + load(from + 16)) + (load(from + 8) + load(from + 24)));
  }
  return sum_lanes(groups);
}

static void norm(const float* in, const float* gain, uint32_t n, float epsilon, float* out) {
  const float mean = sum_of_row(in, n, SumOfSquares{0.0f}) / static_cast<float>(n);
  const float scale = 1.0f / __builtin_sqrtf(mean + epsilon);
  for (uint32_t i = 0; i < n; ++i) out[i] = (in[i] * scale) * gain[i];
}

static void layer_norm(const float* in, const float* gain, const float* bias, uint32_t n, float epsilon,
                       float* out) {
  const float mean = sum_of_row(in, n, SumOfValues{}) / static_cast<float>(n);
  const float variance = sum_of_row(in, n, SumOfSquares{mean}) / static_cast<float>(n);
  const float scale = 1.0f / __builtin_sqrtf(variance + epsilon);
  for (uint32_t i = 0; i < n; ++i) out[i] = ((in[i] - mean) * scale) * gain[i] + bias[i];
}

// gelu_by_error of runner/backend/nonlinearity.h in each lane.
template <typename Lanes>
RUNNEL_INLINE Lanes gelu_by_error(Lanes x) {
  const Lanes zero = {};
  const Lanes distance = x < zero ? -x : x;
  const Lanes t = 1.0f / fma(zero + kErrorScale, distance, zero + 1.0f);
  Lanes sum = zero + kErrorTerms[4];
  sum = fma(sum, t, zero + kErrorTerms[3]);
  sum = fma(sum, t, zero + kErrorTerms[2]);
  sum = fma(sum, t, zero + kErrorTerms[1]);
  sum = fma(sum, t, zero + kErrorTerms[0]);
  const Lanes tail = sum * t * exp(-0.5f * (x * x));
  return fma(-distance, tail, x < zero ? zero : x);
}

// f(gate) x up: see runner/backend/nonlinearity.h.
template <Nonlinearity kKind, typename Lanes>
RUNNEL_INLINE Lanes multiply_gated(Lanes gate, Lanes up) {
  if constexpr (kKind == Nonlinearity::kGeluByError) return gelu_by_error(gate) * up;
  if constexpr (kKind == Nonlinearity::kClampedSwish) {
    const Lanes limit = Lanes{} + kSwishLimit;
    const Lanes x = gate > limit ? limit : gate;
    const Lanes least = up < -limit ? -limit : up;
    return x / (1.0f + exp(-(kSwishFactor * x))) * ((least > limit ? limit : least) + 1.0f);
  }
  Lanes z = gate;
  if constexpr (kKind == Nonlinearity::kGelu)
    z = gate * fma(Lanes{} + kGeluCubic, gate * gate, Lanes{} + kGeluLinear);
  return gate / (1.0f + exp(-z)) * up;
}

template <Nonlinearity kKind>
static void multiply_gated(const float* gate, const float* up, uint32_t n, float* out) {
  uint32_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes)
    store_wide(out + i, multiply_gated<kKind>(load_wide(gate + i), load_wide(up + i)));
  for (; i + 8 <= n; i += 8) store(out + i, multiply_gated<kKind>(load(gate + i), load(up + i)));
  const uint32_t rest = n - i;
  if (rest > 0)
    store_part(out + i, multiply_gated<kKind>(load_part(gate + i, rest), load_part(up + i, rest)), rest);
}

static void soft_cap(float* values, uint32_t n, float cap) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) store(values + i, soft_capped(load(values + i), cap));
  if (i < n) store_part(values + i, soft_capped(load_part(values + i, n - i), cap), n - i);
}

static void rotate(float* head, const float* angles, uint32_t rotary_dim, bool interleaved) {
  const uint32_t num_pairs = rotary_dim / 2;
  const uint32_t step = interleaved ? 2 : 1;
  const uint32_t distance = interleaved ? 1 : num_pairs;
  for (uint32_t pair = 0; pair < num_pairs; ++pair) {
    const float cosine = angles[2 * pair];
    const float sine = angles[2 * pair + 1];
    float& first = head[pair * step];
    float& second = head[pair * step + distance];
    const float a = first;
    const float b = second;
    first = __builtin_fmaf(a, cosine, -(b * sine));
    second = __builtin_fmaf(b, cosine, a * sine);
  }
}

}  // namespace runnel::RUNNEL_KERNELS
