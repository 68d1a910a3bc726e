// docs/numerics.md, "The arithmetic of cuda-runner", written out in scalar code: rows that are ready for a
// product, and products.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda-runner/kernels/ready_rows.h"
#include "runner/formats/dequantize.h"
#include "runner/formats/half.h"
#include "runner/formats/tensor.h"
#include "runner/numerics.h"

namespace runnel::cuda_reference {

// Rows of a width, each continued by zeros to a multiple of 32.
struct Ready {
  uint32_t width;
  uint32_t stride;
  std::vector<float> values;
  std::vector<int8_t> quants;
  std::vector<float> scales;  // of each block of 32
  std::vector<int32_t> sums;
};

inline Ready ready(std::span<const float> rows, uint32_t width) {
  const uint32_t stride = (width + 31) / 32 * 32;
  const size_t num_rows = rows.size() / width;
  Ready out{.width = width, .stride = stride, .values = {}, .quants = {}, .scales = {}, .sums = {}};
  out.values.resize(num_rows * stride);
  for (size_t row = 0; row < num_rows; ++row)
    std::copy_n(rows.data() + row * width, width, out.values.data() + row * stride);
  for (size_t first = 0; first < out.values.size(); first += 32) {
    const std::span<const float> block(out.values.data() + first, 32);
    float largest = 0.0f;
    for (const float x : block) largest = std::max(largest, std::fabs(x));
    const float d = largest / 127.0f;
    int32_t sum = 0;
    for (const float x : block) {
      const float q = d > 0.0f ? std::clamp(std::nearbyint(x / d), -127.0f, 127.0f) : 0.0f;
      out.quants.push_back(static_cast<int8_t>(q));
      sum += static_cast<int32_t>(q);
    }
    out.scales.push_back(d);
    out.sums.push_back(sum);
  }
  return out;
}

// A row of the file's matrix times a row that is ready.
inline float product(TensorType type, std::span<const std::byte> weights, const Ready& x, size_t row) {
  constexpr uint32_t kSegment = 256;
  const float* values = x.values.data() + row * x.stride;
  std::vector<float> floats(x.width);
  if (block_weights(type) == 1) dequantize_row(type, weights, floats);
  const auto half_at = [&](size_t byte) {
    return half_to_float(static_cast<uint16_t>(std::to_integer<uint32_t>(weights[byte]) |
                                               std::to_integer<uint32_t>(weights[byte + 1]) << 8));
  };
  float total = 0.0f;
  for (uint32_t first = 0; first < x.width; first += kSegment) {
    const uint32_t end = std::min(first + kSegment, x.width);
    float acc = 0.0f;
    if (block_weights(type) == 1) {
      for (uint32_t k = first; k < end; ++k) acc = std::fma(floats[k], values[k], acc);
    } else {
      for (uint32_t k = first; k < end; k += 32) {
        const size_t at = size_t{k} / 32 * block_bytes(type);
        const size_t block = (row * x.stride + k) / 32;
        std::array<int8_t, 32> q;
        unpack_block(type, weights.data() + at, q);
        int32_t sum = 0;
        for (uint32_t i = 0; i < 32; ++i) sum += q[i] * x.quants[row * x.stride + k + i];
        acc = std::fma(half_at(at) * x.scales[block], static_cast<float>(sum), acc);
        if (type == TensorType::kQ4_1)
          acc = std::fma(half_at(at + 2), x.scales[block] * static_cast<float>(x.sums[block]), acc);
      }
    }
    total = total + acc;
  }
  return total;
}

inline float gated(float gate, float up) {
  return gate / (1.0f + exp_f32(-gate)) * up;
}

}  // namespace runnel::cuda_reference
