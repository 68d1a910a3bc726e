#include "cuda-runner/device_logit_rows.h"

#include <algorithm>
#include <utility>

#include "runner/check.h"

namespace runnel {

Result<DeviceLogitRows> DeviceLogitRows::allocate(uint32_t max_rows, uint32_t width, uint32_t vocab_size,
                                                  Stream& stream) {
  DeviceActivation input(max_rows, width);
  if (const auto done = input.allocate(); !done) return done.error();
  Result<DeviceSampler> sampler = DeviceSampler::allocate(max_rows, vocab_size);
  if (!sampler) return sampler.error();
  DeviceLogitRows rows(stream, std::move(input), *std::move(sampler));
  rows.vocab_size_ = vocab_size;
  const size_t num_logits = size_t{max_rows} * vocab_size;
  const Result<void> allocated =
      allocate_all("logits", Wanted{rows.logits_, num_logits}, Wanted{rows.chosen_, max_rows},
                   Wanted{rows.host_logits_, num_logits}, Wanted{rows.host_chosen_, max_rows});
  if (!allocated) return allocated.error();
  return rows;
}

void DeviceLogitRows::choose(std::span<const uint32_t> rows) {
  CHECK(rows.size() <= chosen_.size());
  if (was_sent_) sent_.synchronize();
  std::ranges::copy(rows, host_chosen_.span().begin());
  stream_->upload(chosen_, 0, host_chosen_.part(0, rows.size()));
  sent_.record(*stream_);
  was_sent_ = true;
  is_on_host_.assign(rows.size(), false);
}

std::vector<std::optional<uint32_t>> DeviceLogitRows::draw(std::span<const Draw> draws) {
  CHECK(std::ranges::all_of(draws, [&](const Draw& each) { return each.row < is_on_host_.size(); }));
  return sampler_.draw(draws, std::as_const(logits_).view(), *stream_);
}

void DeviceLogitRows::fetch(std::span<const uint32_t> rows) {
  bool has_copied = false;
  for (const uint32_t row : rows) {
    CHECK(row < is_on_host_.size());
    if (is_on_host_[row]) continue;
    stream_->download(host_row(row), logits_, size_t{row} * vocab_size_);
    is_on_host_[row] = has_copied = true;
  }
  if (has_copied) stream_->synchronize();
}

std::span<const float> DeviceLogitRows::row(uint32_t row) {
  fetch({&row, 1});
  return host_row(row);
}

}  // namespace runnel
