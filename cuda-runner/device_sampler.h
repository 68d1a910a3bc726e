// Draws tokens on the device. Each launch sends the lists of ids of its draws, and only the drawn ids are
// copied back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/draw_lists.h"
#include "cuda-runner/kernels/draw.h"
#include "runner/result.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

// Limit of the words of lists that are sent at once (16 MiB), but for a draw that alone has more. Draws whose
// lists are longer together are launched in parts.
inline constexpr size_t kMaxListWords = size_t{1} << 22;

class DeviceSampler {
 public:
  // Fails with kSystem.
  static Result<DeviceSampler> allocate(uint32_t max_draws, uint32_t vocab_size,
                                        size_t max_list_words = kMaxListWords);
  // Bytes of the device's memory that allocate() takes.
  static uint64_t bytes(uint32_t max_draws, uint32_t vocab_size);

  // Launches the draws of the rows that have one, from logits (rows, vocab_size). positions: of the rows of
  // the batch. The copies of the last launch must be done, since their memory is written again. Waits for the
  // stream if lists are sent in parts.
  void launch(std::span<const HeadRow> rows, Global<const float> logits, Global<const uint32_t> positions,
              Stream& stream);
  // Writes the result of each row, as LogitRows::drawn gives it. The stream must have been waited for.
  void read(std::span<const HeadRow> rows, std::vector<std::optional<uint32_t>>& drawn) const;

 private:
  explicit DeviceSampler(uint32_t vocab_size) : vocab_size_(vocab_size), lists_(vocab_size) {}

  // Launches the draws from `first` to end - 1, whose lists have num_words words.
  void launch_part(uint32_t first, uint32_t end, uint32_t num_words, Global<const float> logits,
                   Global<const uint32_t> positions, Stream& stream);
  DrawWorkspace workspace();

  uint32_t vocab_size_;
  DrawLists lists_;
  PinnedBuffer<DeviceDraw> host_draws_;
  uint32_t num_sent_ = 0;  // the first host_draws_ that are on the device as they are
  PinnedBuffer<uint32_t> host_words_;
  PinnedBuffer<uint32_t> host_drawn_;
  DeviceBuffer<DeviceDraw> draws_;
  DeviceBuffer<uint32_t> words_;
  DeviceBuffer<uint32_t> drawn_;
  // See DrawWorkspace.
  DeviceBuffer<Rank> firsts_;
  DeviceBuffer<Rank> winners_;
  DeviceBuffer<DrawBin> bins_;
  DeviceBuffer<GatheredCount> counts_;
  DeviceBuffer<double> gathered_logits_;
  DeviceBuffer<uint32_t> gathered_ids_;
};

}  // namespace runnel
