// Loops over one row: norm, silu, rotation.
#pragma once

#include "cpu-runner/kernels/exp-inl.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/wide-inl.h"

namespace runnel::RUNNEL_KERNELS {

// x . x with the 256 virtual lanes of docs/numerics.md and their tree.
RUNNEL_INLINE float sum_of_squares(const float* x, uint32_t n) {
  constexpr uint32_t kVirtualLanes = 256;
  constexpr uint32_t kGroupLanes = 32;
  alignas(32) float lanes[kVirtualLanes] = {};
  for (uint32_t first = 0; first < n; first += kVirtualLanes) {
    const uint32_t count = n - first < kVirtualLanes ? n - first : kVirtualLanes;
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const Float8 a = load(x + first + i);
      store(lanes + i, fma(a, a, load(lanes + i)));
    }
    for (; i < count; ++i) lanes[i] = __builtin_fmaf(x[first + i], x[first + i], lanes[i]);
  }
  Float8 groups;
  for (uint32_t group = 0; group < kVirtualLanes / kGroupLanes; ++group) {
    const float* from = lanes + group * kGroupLanes;
    groups[group] = sum_lanes((load(from) + load(from + 16)) + (load(from + 8) + load(from + 24)));
  }
  return sum_lanes(groups);
}

static void norm(const float* in, const float* gain, uint32_t n, float epsilon, float* out) {
  const float mean = sum_of_squares(in, n) / static_cast<float>(n);
  const float scale = 1.0f / __builtin_sqrtf(mean + epsilon);
  for (uint32_t i = 0; i < n; ++i) out[i] = (in[i] * scale) * gain[i];
}

template <typename Lanes>
RUNNEL_INLINE Lanes silu_multiply(Lanes gate, Lanes up) {
  return gate / (1.0f + exp(-gate)) * up;
}

static void silu_multiply(const float* gate, const float* up, uint32_t n, float* out) {
  uint32_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes)
    store_wide(out + i, silu_multiply(load_wide(gate + i), load_wide(up + i)));
  for (; i + 8 <= n; i += 8) store(out + i, silu_multiply(load(gate + i), load(up + i)));
  const uint32_t rest = n - i;
  if (rest > 0) store_part(out + i, silu_multiply(load_part(gate + i, rest), load_part(up + i, rest)), rest);
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
