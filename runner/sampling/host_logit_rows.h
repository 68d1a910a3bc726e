// Logits that are in the host's memory.
#pragma once

#include <cstddef>
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
  // Other rows from now on: (num_rows, vocab_size), for the caller to write.
  std::span<float> start(uint32_t num_rows);

  std::vector<std::optional<uint32_t>> draw(std::span<const Draw> draws) override;
  void fetch(std::span<const uint32_t>) override {}
  std::span<const float> row(uint32_t row) override;

 private:
  uint32_t max_rows_;
  uint32_t vocab_size_;
  std::unique_ptr<float[]> logits_;  // (max_rows, vocab_size)
  uint32_t num_rows_ = 0;
  Sampler sampler_;
};

}  // namespace runnel
