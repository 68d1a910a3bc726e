// Cosine and sine for the rows of a step, computed once for all layers that rotate alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pinned_buffer.h"
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
  void start_step() { computed_.reset(); }
  // (num_rows, rotary_dim), for the positions of this step.
  Global<const float> angles(const Rope& rope, Global<const uint32_t> positions, uint32_t num_rows,
                             Stream& stream);

 private:
  // Ways to rotate that a model may have.
  static constexpr size_t kMaxRopes = 4;

  // Which of ropes_ it is; a new one is sent to the device.
  size_t index_of(const Rope& rope, Stream& stream);

  size_t max_pairs_ = 0;
  DeviceBuffer<float> angles_;
  DeviceBuffer<double> frequencies_;       // (kMaxRopes, max_pairs): radians a position
  PinnedBuffer<double> host_frequencies_;  // the same, never written twice
  std::vector<Rope> ropes_;                // those that were met
  std::optional<size_t> computed_;         // whose angles there are
};

}  // namespace runnel
