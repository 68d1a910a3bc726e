// Draws tokens on the device. Each launch sends the lists of ids of its draws; the memory for them is large
// enough for the longest lists that requests may have. Only the drawn ids are copied back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/kernels/draw.h"
#include "runner/result.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

class DeviceSampler {
 public:
  // Fails with kSystem.
  static Result<DeviceSampler> allocate(uint32_t max_draws, uint32_t vocab_size);
  // Bytes of the device's memory that allocate() takes.
  static uint64_t bytes(uint32_t max_draws, uint32_t vocab_size);

  // Launches the draws of the rows that have one, from logits (rows, vocab_size). The copies of the last
  // launch must be done, since their memory is written again.
  void launch(std::span<const HeadRow> rows, Global<const float> logits, Stream& stream);
  // Writes the result of each row, as LogitRows::drawn gives it. The stream must have been waited for.
  void read(std::span<const HeadRow> rows, std::vector<std::optional<uint32_t>>& drawn) const;

 private:
  DeviceSampler() = default;

  // Appends the lists of a draw to the words.
  DeviceDraw add(const Draw& draw, uint32_t row);
  void add_words(std::span<const uint32_t> words);
  // Appends the ids that penalties apply to, each with the number of times it was generated. Returns the
  // number of ids.
  uint32_t add_seen(const Draw& draw);

  uint32_t vocab_size_ = 0;
  PinnedBuffer<DeviceDraw> host_draws_;
  PinnedBuffer<uint32_t> host_words_;
  PinnedBuffer<uint32_t> host_drawn_;
  DeviceBuffer<DeviceDraw> draws_;
  DeviceBuffer<uint32_t> words_;
  DeviceBuffer<uint32_t> drawn_;
  DeviceBuffer<double> candidates_;  // (max_draws, vocab_size)
  uint32_t num_words_ = 0;           // of this launch
  std::vector<uint32_t> counts_;     // of each id, in add_seen; zeros between two calls
};

}  // namespace runnel
