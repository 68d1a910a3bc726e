// Cosine and sine of every row's angles for one way to rotate, computed once a step: all layers turn the same
// positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/thread_pool.h"
#include "runner/backend.h"

namespace runnel {

class RopeAngles {
 public:
  // Makes rows ready for these positions, unless they are already. Always the same rope.
  void prepare(std::span<const uint32_t> positions, const RopeSpec& rope, ThreadPool& threads);

  // (rotary_dim / 2, 2): cosine and sine of each pair.
  const float* row(uint32_t index) const { return angles_.data() + size_t{index} * rotary_dim_; }

 private:
  uint32_t rotary_dim_ = 0;
  std::vector<uint32_t> positions_;  // that angles_ is for
  std::vector<float> angles_;        // (rows, rotary_dim / 2, 2)
};

}  // namespace runnel
