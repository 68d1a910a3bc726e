// Cosine and sine for the rows of a step, computed once for all layers that rotate alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "runner/backend.h"
#include "runner/result.h"

namespace runnel {

class RopeTables {
 public:
  // Angles for so many rows, rotated in any of these ways. Fails with kSystem.
  static Result<RopeTables> allocate(uint32_t max_rows, std::span<const RopeSpec> ropes, Stream& stream);

  RopeTables() = default;

  // Another step: what was computed is of other positions.
  void start_step();
  // (num_rows, rotary_dim) of the rope with this index, for the positions of this step.
  Global<const float> angles(size_t rope, Global<const uint32_t> positions, uint32_t num_rows,
                             Stream& stream);

 private:
  struct Table {
    uint32_t rotary_dim;
    double magnitude;
    DeviceBuffer<double> frequencies;       // (rotary_dim / 2): radians a position
    PinnedBuffer<double> host_frequencies;  // the same, never written twice
    DeviceBuffer<float> angles;             // (max_rows, rotary_dim)
    bool is_computed = false;               // of this step
  };

  std::vector<Table> tables_;
};

}  // namespace runnel
