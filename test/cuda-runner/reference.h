// docs/numerics.md, "The arithmetic of cuda-runner", written out in scalar code: attention.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "runner/numerics.h"
#include "test/fixtures/product_reference.h"

namespace runnel::cuda_reference {

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
      sum = std::fma(sum, correction, reference::tree_of_halves(p));
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

}  // namespace runnel::cuda_reference
