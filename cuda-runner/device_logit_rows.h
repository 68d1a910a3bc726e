// Logits of the chosen rows of a step on the device, and what computes them: all memory of head.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
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

  // Other rows from now on; if they are not those of the last call, they are on their way to the device.
  void choose(std::span<const HeadRow> rows);
  Global<const uint32_t> chosen() const { return chosen_.view(); }
  DeviceActivation& input() { return input_; }
  // For the caller to write.
  FloatRows logits() { return {logits_.view(), vocab_size_}; }
  // What is wanted of the rows, once the logits are launched: draws, and copies on the host.
  void launch();

  std::span<const std::optional<uint32_t>> drawn() override;
  std::span<const float> row(uint32_t index) override;

 private:
  void wait();
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
  std::vector<HeadRow> rows_;
  DeviceSampler sampler_;
  std::vector<std::optional<uint32_t>> drawn_;
  bool is_awaited_ = false;  // draws or copies are under way
  bool was_sent_ = false;    // host_chosen_ may not have been read yet
};

}  // namespace runnel
