// Draws tokens on the device. Its lists go there with each call, in memory that is enough for all that
// requests may list; the ids come back, and nothing else.
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

  // Launches the draws of those rows that have one, from logits (rows, vocab_size). The stream has read what
  // the last launch sent.
  void launch(std::span<const HeadRow> rows, Global<const float> logits, Stream& stream);
  // Of each row, as LogitRows::drawn, once the stream is done.
  void read(std::span<const HeadRow> rows, std::vector<std::optional<uint32_t>>& drawn) const;

 private:
  DeviceSampler() = default;

  DeviceDraw add(const Draw& draw, uint32_t row);
  void add_words(std::span<const uint32_t> words);
  // The ids that penalties are about, and how often each was generated. Returns how many ids.
  uint32_t add_seen(const Draw& draw);

  uint32_t vocab_size_ = 0;
  PinnedBuffer<DeviceDraw> host_draws_;
  PinnedBuffer<uint32_t> host_words_;
  PinnedBuffer<uint32_t> host_drawn_;
  DeviceBuffer<DeviceDraw> draws_;
  DeviceBuffer<uint32_t> words_;
  DeviceBuffer<uint32_t> drawn_;
  DeviceBuffer<double> candidates_;  // (max_draws, vocab_size)
  uint32_t num_words_ = 0;           // of this call
  std::vector<uint32_t> counts_;     // of each id; zeros between two uses
};

}  // namespace runnel
