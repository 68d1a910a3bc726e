// Which tokens may come next in a sequence, as what it has generated decides. A grammar is one.
#pragma once

#include <cstdint>
#include <span>

#include "runner/result.h"

namespace runnel {

class TokenMask {
 public:
  virtual ~TokenMask() = default;

  // Writes which ids may come after these generated ones, which begin with those of the last call:
  // allowed_bits is as in runner/sampling/id_bits.h, for all ids of the vocabulary. One call at a time, from
  // any thread. Fails with kUsage and a sentence if the ids are not what it allows, or if going on takes more
  // than it may take; then it must not be called again.
  virtual Result<void> fill(std::span<const uint32_t> generated_ids, std::span<uint32_t> allowed_bits) = 0;
};

}  // namespace runnel
