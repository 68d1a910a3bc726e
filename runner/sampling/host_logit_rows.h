// Logits that are computed on the host, and draws from them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runner/sampling/logit_rows.h"
#include "runner/sampling/sampler.h"

namespace runnel {

class HostLogitRows final : public LogitRows {
 public:
  HostLogitRows(uint32_t max_rows, uint32_t vocab_size);

  uint32_t vocab_size() const { return vocab_size_; }

  // Other rows from now on: (rows.size(), vocab_size), for the caller to write before anything is asked.
  std::span<float> start(std::span<const HeadRow> rows);

  std::span<const std::optional<uint32_t>> drawn() override;
  std::span<const float> row(uint32_t index) override;

 private:
  std::span<const float> logits(uint32_t index) const;

  uint32_t max_rows_;
  uint32_t vocab_size_;
  std::unique_ptr<float[]> logits_;  // (max_rows, vocab_size); memory is touched when a row is first computed
  std::vector<HeadRow> rows_;
  std::vector<std::optional<uint32_t>> drawn_;
  bool has_drawn_ = false;
  Sampler sampler_;
};

}  // namespace runnel
