// exp, and what is computed with it, for vectors of any width.
#pragma once

#include "cpu-runner/kernels/wide-inl.h"

namespace runnel::RUNNEL_KERNELS {

// The operations of exp_f32 in runner/backend/numerics.h in each lane. Adding and subtracting 1.5 * 2^23
// rounds to the nearest integer, like nearbyint, and leaves that integer in the low bits of the sum.
template <typename Vector>
RUNNEL_INLINE Vector exp(Vector x) {
  const Vector zero = {};
  const Vector lowest = zero - 87.0f;
  const Vector highest = zero + 88.0f;
  const Vector shift = zero + 0x1.8p+23f;
  x = x < lowest ? lowest : x;
  x = x > highest ? highest : x;
  const Vector shifted = x * 0x1.715476p+0f + shift;
  const Vector n = shifted - shift;
  const Vector r = fma(-n, zero - 0x1.05c610p-29f, fma(-n, zero + 0x1.62e430p-1f, x));
  Vector p = zero + 1.0f / 5040.0f;
  p = fma(p, r, zero + 1.0f / 720.0f);
  p = fma(p, r, zero + 1.0f / 120.0f);
  p = fma(p, r, zero + 1.0f / 24.0f);
  p = fma(p, r, zero + 1.0f / 6.0f);
  p = fma(p, r, zero + 0.5f);
  p = fma(p, r, zero + 1.0f);
  p = fma(p, r, zero + 1.0f);
  const auto exponent = bits_of(shifted) - bits_of(shift);
  return p * from_bits((exponent + 127) << 23);
}

// soft_capped of runner/backend/nonlinearity.h in each lane.
template <typename Vector>
RUNNEL_INLINE Vector soft_capped(Vector x, float cap) {
  return cap - 2.0f * cap / (1.0f + exp(x * (2.0f / cap)));
}

}  // namespace runnel::RUNNEL_KERNELS
