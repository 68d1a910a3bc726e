// The logits of the chosen rows of a step, in the device's memory, and all other memory that head needs.
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

// Limit of the rows that are on the host at the same time. More rows come in groups.
inline constexpr uint32_t kMaxHostLogitRows = 32;

class DeviceLogitRows final : public LogitRows {
 public:
  // width: values in a row that the output matrix multiplies. The stream must outlive the result. Fails with
  // kSystem.
  static Result<DeviceLogitRows> allocate(uint32_t max_rows, uint32_t width, uint32_t vocab_size,
                                          Stream& stream);

  // Bytes of the device's memory that allocate() takes.
  static uint64_t bytes(uint32_t max_rows, uint32_t width, uint32_t vocab_size);

  uint32_t vocab_size() const { return vocab_size_; }

  // Sets the rows of the next launch. Their indices are sent to the device unless they equal those of the
  // last call.
  void choose(std::span<const HeadRow> rows);
  Global<const uint32_t> chosen() const { return chosen_.view(); }
  DeviceActivation& input() { return input_; }
  // The caller writes the logits of the chosen rows here before it calls launch().
  FloatRows logits() { return {logits_.view(), vocab_size_}; }
  DeviceColumns columns() { return {&logits_, vocab_size_, 0}; }
  // Launches the draws and the copies to the host that the rows ask for. The kernels that compute the logits
  // must have been launched. positions: of the rows of the batch.
  void launch(Global<const uint32_t> positions);

  std::span<const std::optional<uint32_t>> drawn() override;
  std::span<const float> row(uint32_t index) override;

 private:
  void wait();
  // Starts to copy the logits of rows with wants_logits, from row `first` on, as many as there is room for.
  // Returns whether there are any.
  bool fetch(uint32_t first);

  DeviceLogitRows(Stream& stream, DeviceActivation input, DeviceSampler sampler)
      : stream_(&stream), input_(std::move(input)), sampler_(std::move(sampler)) {}

  Stream* stream_;
  uint32_t vocab_size_ = 0;
  DeviceActivation input_;  // (max_rows, width)
  PinnedBuffer<uint32_t> host_chosen_;
  DeviceBuffer<uint32_t> chosen_;    // (max_rows)
  DeviceBuffer<float> logits_;       // (max_rows, vocab_size)
  PinnedBuffer<float> host_logits_;  // (max_rows, vocab_size), at most kMaxHostLogitRows rows
  std::vector<uint32_t> fetched_;    // the rows that are in host_logits_, in order
  std::vector<HeadRow> rows_;
  DeviceSampler sampler_;
  std::vector<std::optional<uint32_t>> drawn_;
  bool is_awaited_ = false;  // draws or copies have been launched and not waited for
  bool was_sent_ = false;    // the copy from host_chosen_ may not be done yet
};

}  // namespace runnel
