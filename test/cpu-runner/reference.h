// docs/numerics.md written out in scalar code, one output at a time: what every kernel must equal bit for
// bit.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "runner/formats/dequantize.h"
#include "runner/formats/half.h"
#include "runner/formats/tensor.h"
#include "runner/numerics.h"

namespace runnel::reference {

inline float half_at(const std::byte* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  return half_to_float(half);
}

// One row of the file's matrix times x.
inline float product(TensorType type, std::span<const std::byte> row, std::span<const float> x) {
  const bool is_quantised = block_weights(type) > 1;
  std::vector<float> weights(x.size());
  if (!is_quantised) dequantize_row(type, row, weights);
  float acc = 0.0f;
  for (size_t first = 0; first < x.size(); first += 32) {
    const size_t end = std::min(first + 32, x.size());
    const std::byte* block = row.data() + first / 32 * block_bytes(type);
    std::array<int8_t, 32> quants;
    if (is_quantised) unpack_block(type, block, quants);
    float s = 0.0f;
    float sum = 0.0f;
    for (size_t k = first; k < end; ++k) {
      s = std::fma(is_quantised ? static_cast<float>(quants[k - first]) : weights[k], x[k], s);
      sum = sum + x[k];
    }
    acc = is_quantised ? std::fma(half_at(block), s, acc) : acc + s;
    if (type == TensorType::kQ4_1) acc = std::fma(half_at(block + 2), sum, acc);
  }
  return acc;
}

inline float tree(std::array<float, 16> lane) {
  for (int width = 8; width >= 1; width /= 2) {
    for (int j = 0; j < width; ++j) lane[j] = lane[j] + lane[j + width];
  }
  return lane[0];
}

inline float reduction(std::span<const float> a, std::span<const float> b) {
  std::array<float, 16> lane{};
  for (size_t i = 0; i < a.size(); ++i) lane[i % 16] = std::fma(a[i], b[i], lane[i % 16]);
  return tree(lane);
}

inline std::vector<float> norm(std::span<const float> x, std::span<const float> gain, float epsilon) {
  const float scale = 1.0f / std::sqrt(reduction(x, x) / static_cast<float>(x.size()) + epsilon);
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = (x[i] * scale) * gain[i];
  return out;
}

inline float silu(float gate) {
  return gate / (1.0f + exp_f32(-gate));
}

// keys and values: (positions, query.size()), as halves.
inline std::vector<float> attend(std::span<const float> query, std::span<const uint16_t> keys,
                                 std::span<const uint16_t> values, float scale) {
  const size_t dim = query.size();
  const size_t num_positions = keys.size() / dim;
  const auto widen = [&](std::span<const uint16_t> halves, size_t position) {
    std::vector<float> out(dim);
    for (size_t d = 0; d < dim; ++d) out[d] = half_to_float(halves[position * dim + d]);
    return out;
  };
  float max = -HUGE_VALF;
  float sum = 0.0f;
  std::vector<float> acc(dim);
  for (size_t first = 0; first < num_positions; first += 32) {
    const size_t num = std::min<size_t>(32, num_positions - first);
    std::array<float, 32> score;
    float new_max = max;
    for (size_t i = 0; i < num; ++i) {
      score[i] = reduction(query, widen(keys, first + i)) * scale;
      new_max = std::max(new_max, score[i]);
    }
    const float correction = exp_f32(max - new_max);
    std::array<float, 32> weight{};
    for (size_t i = 0; i < num; ++i) weight[i] = exp_f32(score[i] - new_max);
    std::array<float, 16> lane;
    for (size_t j = 0; j < 16; ++j) lane[j] = weight[j] + weight[j + 16];
    sum = std::fma(sum, correction, tree(lane));
    for (float& value : acc) value *= correction;
    for (size_t i = 0; i < num; ++i) {
      const std::vector<float> v = widen(values, first + i);
      for (size_t d = 0; d < dim; ++d) acc[d] = std::fma(weight[i], v[d], acc[d]);
    }
    max = new_max;
  }
  for (float& value : acc) value /= sum;
  return acc;
}

}  // namespace runnel::reference
