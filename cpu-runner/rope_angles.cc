#include "cpu-runner/rope_angles.h"

#include <algorithm>

#include "runner/numerics.h"

namespace runnel {

void RopeAngles::prepare(std::span<const uint32_t> positions, const Rope& rope, ThreadPool& threads) {
  const bool same_rope = rope.rotary_dim == rope_.rotary_dim && rope.theta == rope_.theta;
  if (same_rope && std::ranges::equal(positions, positions_)) return;
  const uint32_t num_pairs = rope.rotary_dim / 2;
  if (!same_rope) {
    rope_ = rope;
    frequencies_.resize(num_pairs);
    for (uint32_t pair = 0; pair < num_pairs; ++pair) {
      frequencies_[pair] = exp_f64(-2.0 * pair / rope.rotary_dim * log_f64(rope.theta));
    }
  }
  positions_.assign(positions.begin(), positions.end());
  angles_.resize(positions.size() * rope.rotary_dim);
  threads.parallel_for(static_cast<uint32_t>(positions.size()), [&](uint32_t row) {
    float* out = angles_.data() + size_t{row} * rope_.rotary_dim;
    for (uint32_t pair = 0; pair < num_pairs; ++pair) {
      const SinCos turn = sin_cos_f64(positions_[row] * frequencies_[pair]);
      out[2 * pair] = static_cast<float>(turn.cos);
      out[2 * pair + 1] = static_cast<float>(turn.sin);
    }
  });
}

}  // namespace runnel
