#include "cuda-runner/forward_pass.h"

namespace runnel {

void ForwardPass::plan(const Batch& batch, uint32_t max_rows) {
  CHECK(batch_ == nullptr && batch.num_rows() <= max_rows);
  batch_ = &batch;
  if (batch.num_rows() == 0) {
    mode_ = Mode::kAhead;
    num_rows_ = 0;
    return;
  }
  const bool is_decode = batch.sequences.size() == batch.num_rows();
  const std::optional<uint32_t> padded = DecodeGraphs::padded_rows(batch.num_rows());
  const bool has_graph = has_passed_ && !enforce_eager_ && is_decode && padded && *padded <= max_rows;
  num_rows_ = has_graph ? *padded : batch.num_rows();
  if (!has_graph) {
    mode_ = Mode::kEager;
  } else {
    mode_ = graphs_.find(num_rows_) != nullptr ? Mode::kReplaying : Mode::kCapturing;
  }
}

void ForwardPass::begin(const Stream& first, Exchange& exchange) {
  CHECK(batch_ != nullptr && !capture_);
  if (mode_ == Mode::kEager || mode_ == Mode::kAhead) return;
  exchange.first_follows();
  if (mode_ != Mode::kCapturing) return;
  capture_.emplace(first);
  exchange.follow_first();
}

void ForwardPass::end(const Stream& first, Exchange& exchange) {
  CHECK(batch_ != nullptr);
  const bool is_wanted = batch_->num_rows() > 0;
  batch_ = nullptr;
  // A pass without rows left ended before its last operation, so it does not count.
  has_passed_ |= is_wanted;
  if (mode_ == Mode::kEager || mode_ == Mode::kAhead) return;
  if (mode_ == Mode::kCapturing) {
    exchange.first_follows();
    if (is_wanted) graphs_.add(num_rows_, capture_->end());
    capture_.reset();
  }
  if (is_wanted) graphs_.find(num_rows_)->launch(first);
}

std::optional<uint32_t> ForwardPass::graph_rows(uint32_t num_rows) const {
  const std::optional<uint32_t> padded = DecodeGraphs::padded_rows(num_rows);
  return padded && graphs_.find(*padded) != nullptr ? padded : std::nullopt;
}

}  // namespace runnel
