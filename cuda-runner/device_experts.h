// The experts of a step's rows: which ones the rows use, and what computing them takes of the device's
// memory.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/device_activation.h"
#include "cuda-runner/kernels/divide_up.h"
#include "cuda-runner/kernels/experts.h"
#include "cuda-runner/kernels/use_groups.h"
#include "runner/result.h"

namespace runnel {

struct ExpertsShape {
  uint32_t max_rows;
  uint32_t num_experts;
  uint32_t num_used;
  uint32_t hidden;
  uint32_t gated;       // of one expert
  uint32_t own_hidden;  // the columns of the output that this rank computes
};

// Steps in which experts are used by several rows each order their uses by expert, gather the rows in that
// order, and multiply them in groups. The gathered rows, and the outputs before they are added up, would take
// gigabytes for the longest steps, so the rows of a step are taken in parts.
class DeviceExperts {
 public:
  // The most bytes of gathered rows and outputs, up to rounding. A part then has some 800 rows of a model
  // that uses 8 of 128 experts, or 50 for each expert. With larger parts there would be hardly fewer groups.
  static constexpr uint64_t kMostPartBytes = uint64_t{128} << 20;

  // Allocates nothing; see allocate().
  explicit DeviceExperts(const ExpertsShape& shape, uint64_t most_part_bytes = kMostPartBytes);

  // Fails with kSystem.
  Result<void> allocate(Stream& stream);
  // Bytes of the device's memory that allocate() takes.
  uint64_t num_bytes() const;
  // The most rows of a part. 0: no step is multiplied in groups.
  uint32_t part_rows() const { return part_rows_; }

  // Chooses the experts of num_rows rows by the router's logits, for the calls that follow.
  void choose(const FloatRows& logits, uint32_t num_rows, const Stream& stream);
  // See expert_gated_multiply.
  void gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, const ExpertBias& bias,
                      Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows, const ReadyRows& out,
                      const Stream& stream);
  // See add_expert_output.
  void add_output(const DeviceMatrix& down, const ExpertBias& bias, const ReadyRows& in, uint32_t num_rows,
                  const FloatRows& out, const Stream& stream);

 private:
  // Elements of the buffers.
  struct Sizes {
    size_t uses = 0;
    size_t counts = 0;
    size_t places = 0;
    size_t groups = 0;
    size_t outputs = 0;
  };
  Sizes sizes() const;
  uint32_t most_places() const {
    return UseGroups::most_places(part_rows_ * shape_.num_used, shape_.num_experts);
  }
  uint32_t most_groups() const {
    return UseGroups::most_groups(part_rows_ * shape_.num_used, shape_.num_experts);
  }
  uint32_t num_parts(uint32_t num_rows) const { return divide_up(num_rows, part_rows_); }
  // Whether the rows of a step are multiplied in groups.
  bool has_groups(uint32_t num_rows) const;
  // Calls of(part, groups) for the parts of a step, which differ by one row at most.
  template <typename Of>
  void for_parts(uint32_t num_rows, const Of& of);
  // Where the rows of a part are gathered, as wide as these.
  ReadyRows gathered_like(const ReadyRows& in);
  ExpertUses uses() { return {ids_.view(), weights_.view(), shape_.num_used}; }

  ExpertsShape shape_;
  uint32_t part_rows_;
  DeviceBuffer<uint32_t> ids_;
  DeviceBuffer<float> weights_;
  // Of each part of a step.
  DeviceBuffer<uint32_t> counts_;
  DeviceBuffer<uint32_t> places_;
  DeviceBuffer<uint32_t> groups_;
  // Of one part.
  std::optional<DeviceActivation> gathered_;
  DeviceBuffer<float> outputs_;  // (uses, own_hidden)
};

}  // namespace runnel
