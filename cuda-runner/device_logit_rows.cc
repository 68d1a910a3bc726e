#include "cuda-runner/device_logit_rows.h"

#include <algorithm>
#include <utility>

#include "runner/check.h"

namespace runnel {

Result<DeviceLogitRows> DeviceLogitRows::allocate(uint32_t max_rows, uint32_t width, uint32_t vocab_size,
                                                  Stream& stream) {
  DeviceActivation input(max_rows, width);
  if (const auto done = input.allocate(stream); !done) return done.error();
  Result<DeviceSampler> sampler = DeviceSampler::allocate(max_rows, vocab_size);
  if (!sampler) return sampler.error();
  DeviceLogitRows rows(stream, std::move(input), *std::move(sampler));
  rows.vocab_size_ = vocab_size;
  const size_t num_logits = size_t{max_rows} * vocab_size;
  const Result<void> allocated =
      allocate_all("logits", Wanted{rows.logits_, num_logits}, Wanted{rows.chosen_, max_rows},
                   Wanted{rows.host_logits_, size_t{std::min(max_rows, kMaxHostLogitRows)} * vocab_size},
                   Wanted{rows.host_chosen_, max_rows});
  if (!allocated) return allocated.error();
  return rows;
}

uint64_t DeviceLogitRows::bytes(uint32_t max_rows, uint32_t width, uint32_t vocab_size) {
  return DeviceActivation(max_rows, width).num_bytes() + DeviceSampler::bytes(max_rows, vocab_size) +
         device_bytes(size_t{max_rows} * vocab_size, sizeof(float)) +
         device_bytes(max_rows, sizeof(uint32_t));
}

void DeviceLogitRows::choose(std::span<const HeadRow> rows) {
  CHECK(rows.size() <= chosen_.size());
  wait();
  const bool is_same = std::ranges::equal(rows, rows_, {}, &HeadRow::row, &HeadRow::row);
  // A HeadRow cannot be assigned, since its draw has a reference to the parameters.
  rows_ = std::vector<HeadRow>(rows.begin(), rows.end());
  drawn_.clear();
  if (is_same) return;
  if (was_sent_) stream_->synchronize();
  was_sent_ = true;
  std::ranges::transform(rows, host_chosen_.span().begin(), &HeadRow::row);
  stream_->upload(chosen_, 0, host_chosen_.part(0, rows.size()));
}

void DeviceLogitRows::launch(Global<const uint32_t> positions) {
  sampler_.launch(rows_, std::as_const(logits_).view(), positions, *stream_);
  is_awaited_ =
      fetch(0) || std::ranges::any_of(rows_, [](const HeadRow& row) { return row.draw.has_value(); });
}

bool DeviceLogitRows::fetch(uint32_t first) {
  fetched_.clear();
  for (uint32_t row = first; row < rows_.size() && fetched_.size() < kMaxHostLogitRows; ++row) {
    if (!rows_[row].wants_logits) continue;
    const size_t place = fetched_.size() * vocab_size_;
    stream_->download(host_logits_.span().subspan(place, vocab_size_), logits_, size_t{row} * vocab_size_);
    fetched_.push_back(row);
  }
  return !fetched_.empty();
}

void DeviceLogitRows::wait() {
  if (!std::exchange(is_awaited_, false)) return;
  stream_->synchronize();
  was_sent_ = false;
  sampler_.read(rows_, drawn_);
}

std::span<const std::optional<uint32_t>> DeviceLogitRows::drawn() {
  wait();
  drawn_.resize(rows_.size());
  return drawn_;
}

std::span<const float> DeviceLogitRows::row(uint32_t index) {
  CHECK(index < rows_.size() && rows_[index].wants_logits);
  wait();
  auto found = std::ranges::lower_bound(fetched_, index);
  if (found == fetched_.end() || *found != index) {
    fetch(index);
    stream_->synchronize();
    found = fetched_.begin();
  }
  const auto place = static_cast<size_t>(found - fetched_.begin());
  return host_logits_.span().subspan(place * vocab_size_, vocab_size_);
}

}  // namespace runnel
