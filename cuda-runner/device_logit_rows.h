// Logits of the chosen rows of a step on the device, and what computes them: all memory of head.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/device_activation.h"
#include "cuda-runner/device_sampler.h"
#include "runner/result.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

class DeviceLogitRows final : public LogitRows {
 public:
  // width: of the rows that the output matrix multiplies. The stream outlives it. Fails with kSystem.
  static Result<DeviceLogitRows> allocate(uint32_t max_rows, uint32_t width, uint32_t vocab_size,
                                          Stream& stream);

  uint32_t vocab_size() const { return vocab_size_; }

  // Other rows of the batch from now on; they are on their way to the device.
  void choose(std::span<const uint32_t> rows);
  Global<const uint32_t> chosen() const { return chosen_.view(); }
  DeviceActivation& input() { return input_; }
  // For the caller to write.
  FloatRows logits() { return {logits_.view(), vocab_size_}; }

  std::vector<std::optional<uint32_t>> draw(std::span<const Draw> draws) override;
  void fetch(std::span<const uint32_t> rows) override;
  std::span<const float> row(uint32_t row) override;

 private:
  std::span<float> host_row(uint32_t row) {
    return host_logits_.span().subspan(size_t{row} * vocab_size_, vocab_size_);
  }

  DeviceLogitRows(Stream& stream, DeviceActivation input, DeviceSampler sampler)
      : stream_(&stream), input_(std::move(input)), sampler_(std::move(sampler)) {}

  Stream* stream_;
  uint32_t vocab_size_ = 0;
  DeviceActivation input_;  // (max_rows, width)
  PinnedBuffer<uint32_t> host_chosen_;
  DeviceBuffer<uint32_t> chosen_;    // (max_rows)
  DeviceBuffer<float> logits_;       // (max_rows, vocab_size)
  PinnedBuffer<float> host_logits_;  // those rows that were asked for
  std::vector<bool> is_on_host_;     // of each chosen row
  DeviceSampler sampler_;
  Event sent_;  // host_chosen_ has been read
  bool was_sent_ = false;
};

}  // namespace runnel
