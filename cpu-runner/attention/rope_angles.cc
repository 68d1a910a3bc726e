#include "cpu-runner/attention/rope_angles.h"

#include <algorithm>

#include "runner/backend/numerics.h"

namespace runnel {

void RopeAngles::prepare(std::span<const uint32_t> positions, const RopeSpec& rope, ThreadPool& threads) {
  if (std::ranges::equal(positions, positions_)) return;
  rotary_dim_ = rope.pairs.rotary_dim;
  positions_.assign(positions.begin(), positions.end());
  angles_.resize(positions.size() * rotary_dim_);
  threads.parallel_for(static_cast<uint32_t>(positions.size()), [&](uint32_t row) {
    float* out = angles_.data() + size_t{row} * rotary_dim_;
    for (const double frequency : rope.frequencies) {
      const SinCos turn = sin_cos_f64(positions_[row] * frequency);
      *out++ = static_cast<float>(turn.cos * rope.magnitude);
      *out++ = static_cast<float>(turn.sin * rope.magnitude);
    }
  });
}

}  // namespace runnel
