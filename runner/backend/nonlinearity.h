// The nonlinearities of feed-forward parts, scores and logits. In a file of their own because kernels of a
// GPU include it. docs/numerics.md has the formulas.
#pragma once

#include <cstdint>

#include "runner/backend/host_device.h"
#include "runner/backend/numerics.h"

namespace runnel {

enum class Nonlinearity : uint8_t {
  kSilu,
  kGelu,         // with tanh, as in GPT-2 and Gemma
  kGeluByError,  // x times the normal distribution function of x, as in BERT; computed on the CPU only
  // min(x, 7) times the logistic function of 1.702 times that, as in gpt-oss. The other factor is limited to
  // [-7, 7], and 1 is added to it. Only with a gate; a GPU computes it for experts only.
  kClampedSwish,
};

// Constants of GELU: 2 sqrt(2 / pi), and 0.044715 times that.
inline constexpr float kGeluLinear = 0x1.988454p+0f;
inline constexpr float kGeluCubic = 0x1.2444f2p-4f;

// Constants of kClampedSwish.
inline constexpr float kSwishFactor = 1.702f;
inline constexpr float kSwishLimit = 7.0f;

// The normal distribution function of -|x| is exp(-x^2 / 2) times a polynomial of t = 1 / (1 + kErrorScale
// |x|), within 7.5e-8: Abramowitz and Stegun 1964, 26.2.17, with the factor 1 / sqrt(2 pi) in the
// coefficients.
inline constexpr float kErrorScale = 0x1.da6712p-3f;
inline constexpr float kErrorTerms[] = {0x1.04f20cp-3f, -0x1.23531cp-3f, 0x1.6be1c6p-1f, -0x1.7401c6p-1f,
                                        0x1.0fb844p-1f};

// kGeluByError.
inline float gelu_by_error(float x) {
  const float distance = x < 0.0f ? -x : x;
  const float t = 1.0f / std::fma(kErrorScale, distance, 1.0f);
  float sum = kErrorTerms[4];
  for (int term = 3; term >= 0; --term) sum = std::fma(sum, t, kErrorTerms[term]);
  const float tail = sum * t * exp_f32(-0.5f * (x * x));
  return std::fma(-distance, tail, x < 0.0f ? 0.0f : x);
}

// kSilu and kGelu, which kernels of a GPU compute too.
RUNNEL_HOST_DEVICE inline float apply(Nonlinearity nonlinearity, float x) {
  const float z = nonlinearity == Nonlinearity::kSilu ? x : x * std::fma(kGeluCubic, x * x, kGeluLinear);
  return x / (1.0f + exp_f32(-z));
}

// f(gate) x up of these two, or kClampedSwish of both.
RUNNEL_HOST_DEVICE inline float apply_gate(Nonlinearity nonlinearity, float gate, float up) {
  if (nonlinearity != Nonlinearity::kClampedSwish) return apply(nonlinearity, gate) * up;
  const float x = gate > kSwishLimit ? kSwishLimit : gate;
  const float least = up < -kSwishLimit ? -kSwishLimit : up;
  const float factor = (least > kSwishLimit ? kSwishLimit : least) + 1.0f;
  return x / (1.0f + exp_f32(-(kSwishFactor * x))) * factor;
}

// cap * tanh(x / cap), with factor = 2 / cap.
RUNNEL_HOST_DEVICE inline float soft_capped(float x, float cap, float factor) {
  return cap - 2.0f * cap / (1.0f + exp_f32(factor * x));
}
RUNNEL_HOST_DEVICE inline float soft_capped(float x, float cap) {
  return soft_capped(x, cap, 2.0f / cap);
}

}  // namespace runnel
