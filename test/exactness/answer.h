// The result of a request. It must depend on nothing but the request and the model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/engine/sequence.h"

namespace runnel::exactness {

struct Answer {
  std::vector<uint32_t> token_ids;
  // For each token, of the row of logits that it was drawn from, if that was read.
  std::vector<std::optional<uint64_t>> logits_hashes;
  FinishReason finish_reason = FinishReason::kNone;
  bool is_in_order = true;  // no index is missing or twice, and no token comes after the end

  uint32_t size() const { return static_cast<uint32_t>(token_ids.size()); }
};

// Describes the first difference for people; "" if there is none.
inline std::string difference(const Answer& alone, const Answer& together) {
  const uint32_t num_common = std::min(alone.size(), together.size());
  for (uint32_t i = 0; i < num_common; ++i) {
    const std::string place = " of token " + std::to_string(i) + " of " + std::to_string(alone.size());
    const bool is_known = alone.logits_hashes[i] && together.logits_hashes[i];
    if (is_known && alone.logits_hashes[i] != together.logits_hashes[i]) return "the logits" + place;
    if (alone.token_ids[i] != together.token_ids[i])
      return "the id" + place + (is_known ? ", from equal logits" : "");
  }
  if (alone.size() != together.size())
    return "the length: " + std::to_string(alone.size()) + " tokens alone, " +
           std::to_string(together.size()) + " among others";
  if (!alone.is_in_order || !together.is_in_order) return "the order of the tokens";
  if (alone.finish_reason != together.finish_reason) return "the finish reason";
  return "";
}

}  // namespace runnel::exactness
