// Cosine and sine for the rows of a step, computed once for all layers that rotate alike.
#pragma once

#include <cstdint>
#include <deque>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/stream.h"
#include "runner/backend.h"
#include "runner/result.h"

namespace runnel {

class RopeTables {
 public:
  // Angles for so many rows of heads of so many values. Fails with kSystem.
  static Result<RopeTables> allocate(uint32_t max_rows, uint32_t max_rotary_dim);

  RopeTables() = default;

  // Another step: what was computed is of other positions.
  void start_step() { computed_ = nullptr; }
  // (num_rows, rotary_dim), for the positions of this step.
  Global<const float> angles(const Rope& rope, Global<const uint32_t> positions, uint32_t num_rows,
                             Stream& stream);

 private:
  struct Frequencies {
    Rope rope;
    DeviceBuffer<double> values;  // (rotary_dim / 2): radians a position
  };
  const Frequencies& frequencies(const Rope& rope, Stream& stream);

  DeviceBuffer<float> angles_;
  std::deque<Frequencies> frequencies_;  // a model has one or two
  const Frequencies* computed_ = nullptr;
};

}  // namespace runnel
