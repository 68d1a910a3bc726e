// Loops over one row: norm, silu, rotation, block sums.
#pragma once

#include "cpu-runner/kernels/exp-inl.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/vector-inl.h"

namespace runnel::RUNNEL_KERNELS {

static void block_sums(const float* values, uint32_t n, float* sums) {
  for (uint32_t first = 0; first < n; first += kBlockColumns) {
    float sum = 0.0f;
    const uint32_t end = first + kBlockColumns < n ? first + kBlockColumns : n;
    for (uint32_t k = first; k < end; ++k) sum += values[k];
    sums[first / kBlockColumns] = sum;
  }
}

// The reduction of docs/numerics.md, of x . x.
RUNNEL_INLINE float sum_of_squares(const float* x, uint32_t n) {
  Float8 low = broadcast(0.0f);
  Float8 high = broadcast(0.0f);
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Float8 a = load(x + i);
    const Float8 b = load(x + i + 8);
    low = fma(a, a, low);
    high = fma(b, b, high);
  }
  const uint32_t rest = n - i;
  const Float8 a = load_part(x + i, rest < 8 ? rest : 8);
  const Float8 b = rest > 8 ? load_part(x + i + 8, rest - 8) : broadcast(0.0f);
  low = fma(a, a, low);
  high = fma(b, b, high);
  return sum_lanes(low + high);
}

static void norm(const float* in, const float* gain, uint32_t n, float epsilon, float* out) {
  const float mean = sum_of_squares(in, n) / static_cast<float>(n);
  const float scale = 1.0f / __builtin_sqrtf(mean + epsilon);
  for (uint32_t i = 0; i < n; ++i) out[i] = (in[i] * scale) * gain[i];
}

RUNNEL_INLINE Float8 silu_multiply8(Float8 gate, Float8 up) {
  return gate / (broadcast(1.0f) + exp(-gate)) * up;
}

static void silu_multiply(const float* gate, const float* up, uint32_t n, float* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) store(out + i, silu_multiply8(load(gate + i), load(up + i)));
  const uint32_t rest = n - i;
  if (rest > 0) store_part(out + i, silu_multiply8(load_part(gate + i, rest), load_part(up + i, rest)), rest);
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
