// The nonlinearities of feed-forward parts, scores and logits. In a file of their own because kernels of a
// GPU include it. docs/numerics.md has the formulas.
#pragma once

#include <cstdint>

#include "runner/backend/host_device.h"
#include "runner/backend/numerics.h"

namespace runnel {

enum class Nonlinearity : uint8_t {
  kSilu,
  kGelu,  // with tanh, as in GPT-2 and Gemma
};

// Constants of GELU: 2 sqrt(2 / pi), and 0.044715 times that.
inline constexpr float kGeluLinear = 0x1.988454p+0f;
inline constexpr float kGeluCubic = 0x1.2444f2p-4f;

RUNNEL_HOST_DEVICE inline float apply(Nonlinearity nonlinearity, float x) {
  const float z = nonlinearity == Nonlinearity::kSilu ? x : x * std::fma(kGeluCubic, x * x, kGeluLinear);
  return x / (1.0f + exp_f32(-z));
}

// cap * tanh(x / cap), with factor = 2 / cap.
RUNNEL_HOST_DEVICE inline float soft_capped(float x, float cap, float factor) {
  return cap - 2.0f * cap / (1.0f + exp_f32(factor * x));
}
RUNNEL_HOST_DEVICE inline float soft_capped(float x, float cap) {
  return soft_capped(x, cap, 2.0f / cap);
}

}  // namespace runnel
