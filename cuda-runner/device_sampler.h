// Draws tokens on the device. Each launch sends the lists of ids of its draws, and only the drawn ids are
// copied back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pending.h"
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

// The ids that a launch of draws gives, on the host.
class DrawnIds {
 public:
  // Fails with kSystem.
  static Result<DrawnIds> allocate(uint32_t max_draws);
  // Starts the copy of the first `count` ids.
  void fetch(const DeviceBuffer<uint32_t>& drawn, uint32_t count, Stream& stream);
  // Waits for the last copy. What each draw has given; nothing if its logits are not all finite.
  std::optional<uint32_t> at(uint32_t draw);

 private:
  PinnedBuffer<uint32_t> ids_;
  uint32_t count_ = 0;
  Pending fetch_;
};

class DeviceSampler {
 public:
  // Fails with kSystem.
  static Result<DeviceSampler> allocate(uint32_t max_draws, uint32_t vocab_size,
                                        size_t max_list_words = kMaxListWords);
  // Bytes of the device's memory that allocate() takes.
  static uint64_t bytes(uint32_t max_draws, uint32_t vocab_size);

  // Sends the draws of the next launch, which must all be plain (is_plain), before the work that gives their
  // logits. They need not wait for its end then.
  void send(std::span<const HeadRow> rows, Stream& stream);
  // Launches the draws of the rows that have one, from logits (rows, vocab_size), and the copy of the ids.
  // positions: of the rows of the batch. Waits for the stream if lists are sent in parts.
  void launch(std::span<const HeadRow> rows, Global<const float> logits, Global<const uint32_t> positions,
              DrawnIds& ids, Stream& stream);
  // The ids of the last launch, and their number.
  const DeviceBuffer<uint32_t>& drawn() const { return drawn_; }
  uint32_t num_drawn() const { return num_drawn_; }

 private:
  explicit DeviceSampler(uint32_t vocab_size) : vocab_size_(vocab_size), lists_(vocab_size) {}

  // The draw of a row, without its lists.
  DeviceDraw device_draw(uint32_t row, const HeadRow& of) const;
  // Puts the draw into the host's memory, if it is not there.
  void put(uint32_t place, const DeviceDraw& draw);
  // Sends the first `end` draws, as far as they are not on the device.
  void send_draws(uint32_t end, Stream& stream);
  // Launches the draws from `first` to end - 1, whose lists have num_words words.
  void launch_part(uint32_t first, uint32_t end, uint32_t num_words, Global<const float> logits,
                   Global<const uint32_t> positions, Stream& stream);
  DrawWorkspace workspace();

  uint32_t vocab_size_;
  DrawLists lists_;
  PinnedBuffer<DeviceDraw> host_draws_;
  uint32_t num_sent_ = 0;  // the first host_draws_ that are on the device as they are
  PinnedBuffer<uint32_t> host_words_;
  Pending sent_;  // the last copies from the host's memory
  DeviceBuffer<DeviceDraw> draws_;
  DeviceBuffer<uint32_t> words_;
  DeviceBuffer<uint32_t> drawn_;
  uint32_t num_drawn_ = 0;
  // See DrawWorkspace.
  DeviceBuffer<Rank> firsts_;
  DeviceBuffer<Rank> winners_;
  DeviceBuffer<DrawBin> bins_;
  DeviceBuffer<GatheredCount> counts_;
  DeviceBuffer<double> gathered_logits_;
  DeviceBuffer<uint32_t> gathered_ids_;
};

}  // namespace runnel
