// The logits of the chosen rows of a step, in the device's memory, and all other memory that head needs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/pending.h"
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

  // Sets the rows whose results are read next. ahead: for each, its number among the rows of the step ahead
  // if it is one of them; none: no row is. Of the others `row` is that of the pass, and they are the chosen
  // rows. Their numbers are sent to the device unless they are there.
  void choose(std::span<const HeadRow> rows, std::span<const std::optional<uint32_t>> ahead = {});
  // The same for a step ahead, before its pass. The results that are read next stay as they are until the
  // next call of choose(). No logits may be asked for.
  void choose_ahead(std::span<const HeadRow> rows);
  // Sends the draws of the chosen rows, which must be plain (is_plain), before the pass.
  void send_draws() { sampler_.send(to_compute_, *stream_); }
  uint32_t num_chosen() const { return static_cast<uint32_t>(to_compute_.size()); }
  Global<const uint32_t> chosen() const { return chosen_.view(); }
  DeviceActivation& input() { return input_; }
  // The caller writes the logits of the chosen rows here before it calls launch().
  FloatRows logits() { return {logits_.view(), vocab_size_}; }
  DeviceColumns columns() { return {&logits_, vocab_size_, 0}; }
  // Launches the draws and the copies to the host that the chosen rows ask for. The kernels that compute the
  // logits must have been launched. positions: of the rows of the batch.
  void launch(Global<const uint32_t> positions);
  // The same for the rows of choose_ahead().
  void launch_ahead(Global<const uint32_t> positions);
  // The ids of the last launch, on the device, and their number.
  const DeviceBuffer<uint32_t>& last_drawn() const { return sampler_.drawn(); }
  uint32_t num_last_drawn() const { return sampler_.num_drawn(); }

  std::span<const std::optional<uint32_t>> drawn() override;
  std::span<const float> row(uint32_t index) override;

 private:
  // What becomes of a row whose result is read.
  struct Source {
    bool wants_logits;
    std::optional<uint32_t> ahead;   // its number in the step ahead
    std::optional<uint32_t> chosen;  // its number among the chosen rows
    std::optional<uint32_t> draw;    // the number of its draw, if it has one
  };

  void send_chosen();
  // Starts to copy the logits of rows with wants_logits, from row `first` on, as many as there is room for.
  void fetch(uint32_t first);

  DeviceLogitRows(Stream& stream, DeviceActivation input, DeviceSampler sampler, std::array<DrawnIds, 2> ids)
      : stream_(&stream), input_(std::move(input)), sampler_(std::move(sampler)), ids_(std::move(ids)) {}

  Stream* stream_;
  uint32_t vocab_size_ = 0;
  DeviceActivation input_;  // (max_rows, width)
  PinnedBuffer<uint32_t> host_chosen_;
  uint32_t num_sent_ = 0;            // the first host_chosen_ that are on the device as they are
  Pending sent_;                     // the last copy from host_chosen_
  DeviceBuffer<uint32_t> chosen_;    // (max_rows)
  DeviceBuffer<float> logits_;       // (max_rows, vocab_size)
  PinnedBuffer<float> host_logits_;  // (max_rows, vocab_size), at most kMaxHostLogitRows rows
  std::vector<uint32_t> fetched_;    // the rows that are in host_logits_, in order
  bool is_fetching_ = false;         // they may not be there yet
  std::vector<Source> sources_;      // of the rows whose results are read next
  std::vector<HeadRow> to_compute_;  // the chosen rows
  DeviceSampler sampler_;
  // Of launches in turn, since a step ahead is launched before the results of the last one are read.
  std::array<DrawnIds, 2> ids_;
  uint32_t last_ = 0;                           // those of the last launch
  uint32_t ids_chosen_ = 0;                     // of the chosen rows whose results are read next
  uint32_t ids_ahead_ = 0;                      // of the rows among these that were computed ahead
  std::vector<std::optional<uint32_t>> drawn_;  // empty: not read yet
};

}  // namespace runnel
