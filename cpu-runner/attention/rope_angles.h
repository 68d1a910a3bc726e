// Cosine and sine of the angles of each row for one RopeSpec. They are computed once a step, since all layers
// rotate by the same positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/thread_pool.h"
#include "runner/backend/backend.h"

namespace runnel {

class RopeAngles {
 public:
  // Computes the rows for these positions, unless they are already there. All calls must have the same rope.
  void prepare(std::span<const uint32_t> positions, const RopeSpec& rope, ThreadPool& threads);

  // (rotary_dim / 2, 2): cosine and sine of each pair.
  const float* row(uint32_t index) const { return angles_.data() + size_t{index} * rotary_dim_; }

 private:
  uint32_t rotary_dim_ = 0;
  std::vector<uint32_t> positions_;  // the positions of angles_
  std::vector<float> angles_;        // (rows, rotary_dim / 2, 2)
};

}  // namespace runnel
