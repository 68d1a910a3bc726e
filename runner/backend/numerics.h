// Elementary functions of the project's own, so that results do not depend on the machine's C library. Each
// is a fixed sequence of IEEE operations, with std::fma where written (the build forbids contraction
// elsewhere), so it gives the same bits on every processor and instruction set. They are not for speed: the
// kernels have vector versions of exp_f32 with the same operations in the same order.
//
// Methods: range reduction after Cody and Waite, then Taylor polynomials. At these ranges Taylor polynomials
// need only a few more terms than minimax polynomials, and have no coefficients that must be trusted.
// Accuracy, as tested against libm: exp_f32 within 2 ulp, the functions in double within 4 ulp.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runner/backend/host_device.h"

namespace runnel {

// e^x for |x| < 708. Gives 0 for smaller x and infinity for larger x.
RUNNEL_HOST_DEVICE inline double exp_f64(double x) {
  if (!(x > -708.0)) return x != x ? x : 0.0;
  if (x > 708.0) return std::numeric_limits<double>::infinity();
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fefa39efp-1;
  constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
  const double n = std::nearbyint(x * kLog2E);
  const double r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));
  // 1 / k!, each rounded once: 13! is still an exact double.
  constexpr auto kInverseFactorials = [] {
    std::array<double, 14> inverses{};
    double factorial = 1.0;
    for (int k = 0; k < 14; ++k) {
      if (k > 0) factorial *= k;
      inverses[k] = 1.0 / factorial;
    }
    return inverses;
  }();
  // Taylor in Horner form, |r| <= ln(2) / 2: the term of degree 14 is below 2^-57.
  double p = kInverseFactorials[13];
  for (int k = 12; k >= 0; --k) p = std::fma(p, r, kInverseFactorials[k]);
  return p * std::bit_cast<double>((static_cast<int64_t>(n) + 1023) << 52);
}

// Natural logarithm of a positive normal number.
RUNNEL_HOST_DEVICE inline double log_f64(double x) {
  constexpr double kLn2High = 0x1.62e42fefa39efp-1;
  constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
  constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
  const int64_t bits = std::bit_cast<int64_t>(x);
  double exponent = static_cast<double>((bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);  // [1, 2)
  if (m > kSqrt2) {
    m *= 0.5;
    exponent += 1.0;
  }
  // log m = 2 atanh s = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.1716: the term of degree 23 is below 2^-62.
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double p = 1.0 / 23.0;
  for (int k = 21; k >= 3; k -= 2) p = std::fma(p, s2, 1.0 / k);
  const double log_m = 2.0 * std::fma(s * s2, p, s);
  return std::fma(exponent, kLn2High, std::fma(exponent, kLn2Low, log_m));
}

struct SinCos {
  double sin;
  double cos;
};

// For |x| < 2^20 radians. Beyond that, the reduction in two parts would lose bits. Positions times
// frequencies stay below.
RUNNEL_HOST_DEVICE inline SinCos sin_cos_f64(double x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
  constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
  const double n = std::nearbyint(x * kTwoOverPi);
  const double r = std::fma(-n, kHalfPiLow, std::fma(-n, kHalfPiHigh, x));  // |r| <= pi / 4
  const double r2 = r * r;
  // Taylor to r^19 and r^18, nested as 1 - r2/(2·3) (1 - r2/(4·5) (...)).
  double sine = 1.0;
  for (int k = 18; k >= 2; k -= 2) sine = std::fma(-r2 / (k * (k + 1)), sine, 1.0);
  sine *= r;
  double cosine = 1.0;
  for (int k = 18; k >= 2; k -= 2) cosine = std::fma(-r2 / (k * (k - 1)), cosine, 1.0);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

// e^x in single precision; x is clamped to [-87, 88], so the result is always a positive normal number.
RUNNEL_HOST_DEVICE inline float exp_f32(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float n = std::nearbyint(x * 0x1.715476p+0f);
  const float r = std::fma(-n, -0x1.05c610p-29f, std::fma(-n, 0x1.62e430p-1f, x));
  // Taylor to degree 7 in Horner form, |r| <= ln(2) / 2: the next term is below 2^-27.
  float p = 1.0f / 5040.0f;
  p = std::fma(p, r, 1.0f / 720.0f);
  p = std::fma(p, r, 1.0f / 120.0f);
  p = std::fma(p, r, 1.0f / 24.0f);
  p = std::fma(p, r, 1.0f / 6.0f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

}  // namespace runnel
