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
#include "test/fixtures/product_reference.h"

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

inline float score(std::span<const float> query, std::span<const float> key, float scale) {
  std::array<float, 4> s{};
  for (size_t d = 0; d < query.size(); ++d) s[d % 4] = std::fma(query[d], key[d], s[d % 4]);
  return ((s[0] + s[1]) + (s[2] + s[3])) * scale;
}

// keys and values: (positions, query.size()), as stored; the query sees those from first_position on.
inline std::vector<float> attend(std::span<const float> query, std::span<const float> keys,
                                 std::span<const float> values, size_t first_position, float scale) {
  const size_t dim = query.size();
  const size_t num_positions = keys.size() / dim;
  float all_max = -HUGE_VALF;
  float all_sum = 0.0f;
  std::vector<float> all(dim);
  for (size_t split = first_position / 256 * 256; split < num_positions; split += 256) {
    float max = -HUGE_VALF;
    float sum = 0.0f;
    std::vector<float> acc(dim);
    for (size_t tile = split; tile < std::min(split + 256, num_positions); tile += 32) {
      const size_t begin = std::max(first_position, tile);
      const size_t end = std::min(tile + 32, num_positions);
      if (begin >= end) continue;
      std::array<float, 32> t{};
      float new_max = max;
      for (size_t i = begin; i < end; ++i) {
        t[i - tile] = score(query, keys.subspan(i * dim, dim), scale);
        new_max = std::max(new_max, t[i - tile]);
      }
      const float correction = exp_f32(max - new_max);
      std::vector<float> p(32);
      for (size_t i = begin; i < end; ++i) p[i - tile] = exp_f32(t[i - tile] - new_max);
      sum = std::fma(sum, correction, tree_of_halves(p));
      for (size_t d = 0; d < dim; ++d) {
        acc[d] = acc[d] * correction;
        for (size_t i = begin; i < end; ++i) acc[d] = std::fma(p[i - tile], values[i * dim + d], acc[d]);
      }
      max = new_max;
    }
    const float new_max = std::max(all_max, max);
    const float so_far = exp_f32(all_max - new_max);
    const float of_split = exp_f32(max - new_max);
    all_sum = std::fma(all_sum, so_far, sum * of_split);
    for (size_t d = 0; d < dim; ++d) all[d] = std::fma(all[d], so_far, acc[d] * of_split);
    all_max = new_max;
  }
  for (float& value : all) value = value / all_sum;
  return all;
}

}  // namespace runnel::reference
