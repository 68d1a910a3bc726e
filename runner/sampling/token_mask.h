// Which tokens may come next in a sequence, depending on what it has generated. A grammar is one such mask.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "runner/result.h"

namespace runnel {

// Masks that take more processor time are slow.
constexpr std::chrono::nanoseconds kQuickMask = std::chrono::milliseconds(20);

class TokenMask {
 public:
  virtual ~TokenMask() = default;

  // Writes which ids may come after the generated ids. It takes as long as following those that the last call
  // did not have. allowed_bits has the form of runner/sampling/id_bits.h, for all ids of the vocabulary. Any
  // thread may call it, one at a time. Fails with kUsage and a sentence if the mask does not allow the
  // generated ids, or if continuing needs more memory or time than allowed; the next call begins anew then.
  virtual Result<void> fill(std::span<const uint32_t> generated_ids, std::span<uint32_t> allowed_bits) = 0;
  // A guess of the id that is drawn with these bits, which fill() wrote. Nothing if they leave the text open.
  virtual std::optional<uint32_t> guess(std::span<const uint32_t> /*allowed_bits*/) const {
    return std::nullopt;
  }
};

}  // namespace runnel
