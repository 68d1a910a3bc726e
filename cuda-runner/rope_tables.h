// Cosine and sine of the angles of a step's rows. They are computed once a step for all layers that rotate in
// the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "runner/backend/backend.h"
#include "runner/result.h"

namespace runnel {

class RopeTables {
 public:
  // Allocates a table of max_rows rows for each of ropes. Fails with kSystem.
  static Result<RopeTables> allocate(uint32_t max_rows, std::span<const RopeSpec> ropes, Stream& stream);

  // Bytes of the device's memory that allocate() takes.
  static uint64_t bytes(uint32_t max_rows, std::span<const RopeSpec> ropes);

  RopeTables() = default;

  // Marks all angles as not computed, since the next step has other positions.
  void start_step();
  // The angles (num_rows, rotary_dim) of ropes[rope] for the positions of this step. Launches their
  // computation if this is the first call in the step. Empty if the rope rotates nothing.
  Global<const float> angles(size_t rope, Global<const uint32_t> positions, uint32_t num_rows,
                             Stream& stream);

 private:
  struct Table {
    uint32_t rotary_dim;
    double magnitude;
    DeviceBuffer<double> frequencies;       // (rotary_dim / 2): radians per position
    PinnedBuffer<double> host_frequencies;  // the source of the copy to the device; written only once
    DeviceBuffer<float> angles;             // (max_rows, rotary_dim)
    bool is_computed = false;               // in this step
  };

  std::vector<Table> tables_;
};

}  // namespace runnel
