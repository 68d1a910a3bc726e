// The nonlinearity of a feed-forward part. In a file of its own because kernels of a GPU include it.
// docs/numerics.md has the formulas.
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

}  // namespace runnel
