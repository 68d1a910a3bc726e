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
#include "runner/kv_type.h"
#include "runner/numerics.h"

namespace runnel::reference {

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

// A key or value as a cache of the type gives it back.
inline std::vector<float> as_stored(KvType type, std::span<const float> row) {
  std::vector<float> out(row.begin(), row.end());
  if (type == KvType::kF16) {
    for (float& value : out) value = half_to_float(float_to_half(value));
  } else if (type == KvType::kQ8_0) {
    for (size_t first = 0; first < out.size(); first += 32) {
      const auto block = std::span(out).subspan(first, 32);
      float largest = 0.0f;
      for (const float value : block) largest = std::max(largest, std::abs(value));
      const float d = half_to_float(float_to_half(largest / 127.0f));
      for (float& value : block) {
        const float q = d == 0.0f ? 0.0f : std::clamp(std::nearbyint(value / d), -127.0f, 127.0f);
        value = d * q;
      }
    }
  }
  return out;
}

// keys and values: (positions, query.size()), as stored; the query sees those from first_position on.
inline std::vector<float> attend(std::span<const float> query, std::span<const float> keys,
                                 std::span<const float> values, size_t first_position, float scale) {
  const size_t dim = query.size();
  const size_t num_positions = keys.size() / dim;
  float max = -HUGE_VALF;
  float sum = 0.0f;
  std::vector<float> acc(dim);
  for (size_t first = first_position / 32 * 32; first < num_positions; first += 32) {
    const size_t begin = std::max(first_position, first) - first;
    const size_t end = std::min<size_t>(32, num_positions - first);
    std::array<float, 32> score;
    float new_max = max;
    for (size_t i = begin; i < end; ++i) {
      score[i] = reduction(query, keys.subspan((first + i) * dim, dim)) * scale;
      new_max = std::max(new_max, score[i]);
    }
    const float correction = exp_f32(max - new_max);
    std::array<float, 32> weight{};
    for (size_t i = begin; i < end; ++i) weight[i] = exp_f32(score[i] - new_max);
    std::array<float, 16> lane;
    for (size_t j = 0; j < 16; ++j) lane[j] = weight[j] + weight[j + 16];
    sum = std::fma(sum, correction, tree(lane));
    for (float& value : acc) value *= correction;
    for (size_t i = begin; i < end; ++i) {
      const std::span<const float> v = values.subspan((first + i) * dim, dim);
      for (size_t d = 0; d < dim; ++d) acc[d] = std::fma(weight[i], v[d], acc[d]);
    }
    max = new_max;
  }
  for (float& value : acc) value /= sum;
  return acc;
}

}  // namespace runnel::reference
