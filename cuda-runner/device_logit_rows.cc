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
  Result<DrawnIds> ids = DrawnIds::allocate(max_rows);
  if (!ids) return ids.error();
  Result<DrawnIds> other_ids = DrawnIds::allocate(max_rows);
  if (!other_ids) return other_ids.error();
  DeviceLogitRows rows(stream, std::move(input), *std::move(sampler),
                       {*std::move(ids), *std::move(other_ids)});
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

void DeviceLogitRows::choose(std::span<const HeadRow> rows, std::span<const std::optional<uint32_t>> ahead) {
  CHECK(ahead.empty() || ahead.size() == rows.size());
  ids_ahead_ = last_;
  drawn_.clear();
  fetched_.clear();
  sources_.clear();
  to_compute_.clear();
  uint32_t num_draws = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    Source& source = sources_.emplace_back();
    source.wants_logits = rows[i].wants_logits;
    if (!ahead.empty() && ahead[i]) {
      CHECK(rows[i].draw && !rows[i].wants_logits);
      source.ahead = ahead[i];
      continue;
    }
    source.chosen = num_chosen();
    if (rows[i].draw) source.draw = num_draws++;
    to_compute_.push_back(rows[i]);
  }
  send_chosen();
}

void DeviceLogitRows::choose_ahead(std::span<const HeadRow> rows) {
  // A HeadRow cannot be assigned, since its draw has a reference to the parameters.
  to_compute_ = std::vector<HeadRow>(rows.begin(), rows.end());
  send_chosen();
}

void DeviceLogitRows::send_chosen() {
  CHECK(to_compute_.size() <= chosen_.size());
  const std::span<uint32_t> chosen = host_chosen_.span();
  const auto is_there = [&](uint32_t i) { return i < num_sent_ && chosen[i] == to_compute_[i].row; };
  uint32_t first = 0;
  while (first < num_chosen() && is_there(first)) ++first;
  if (first == num_chosen()) return;
  sent_.wait();
  for (uint32_t i = first; i < num_chosen(); ++i) chosen[i] = to_compute_[i].row;
  stream_->upload(chosen_, first, host_chosen_.part(first, num_chosen() - first));
  num_sent_ = num_chosen();
  sent_.record(*stream_);
}

void DeviceLogitRows::launch(Global<const uint32_t> positions) {
  ids_chosen_ = last_ = 1 - last_;
  sampler_.launch(to_compute_, std::as_const(logits_).view(), positions, ids_[last_], *stream_);
  fetch(0);
}

void DeviceLogitRows::launch_ahead(Global<const uint32_t> positions) {
  CHECK(fetched_.empty());
  last_ = 1 - last_;
  sampler_.launch(to_compute_, std::as_const(logits_).view(), positions, ids_[last_], *stream_);
}

void DeviceLogitRows::fetch(uint32_t first) {
  fetched_.clear();
  for (uint32_t row = first; row < sources_.size() && fetched_.size() < kMaxHostLogitRows; ++row) {
    if (!sources_[row].wants_logits) continue;
    const size_t place = fetched_.size() * vocab_size_;
    stream_->download(host_logits_.span().subspan(place, vocab_size_), logits_,
                      size_t{*sources_[row].chosen} * vocab_size_);
    fetched_.push_back(row);
  }
  is_fetching_ = !fetched_.empty();
}

std::span<const std::optional<uint32_t>> DeviceLogitRows::drawn() {
  if (drawn_.empty()) {
    for (const Source& source : sources_) {
      std::optional<uint32_t>& id = drawn_.emplace_back();
      if (source.ahead) id = ids_[ids_ahead_].at(*source.ahead);
      if (source.draw) id = ids_[ids_chosen_].at(*source.draw);
    }
  }
  return drawn_;
}

std::span<const float> DeviceLogitRows::row(uint32_t index) {
  CHECK(index < sources_.size() && sources_[index].wants_logits);
  auto found = std::ranges::lower_bound(fetched_, index);
  if (found == fetched_.end() || *found != index) {
    fetch(index);
    found = fetched_.begin();
  }
  if (std::exchange(is_fetching_, false)) stream_->synchronize();
  const auto place = static_cast<size_t>(found - fetched_.begin());
  return host_logits_.span().subspan(place * vocab_size_, vocab_size_);
}

}  // namespace runnel
