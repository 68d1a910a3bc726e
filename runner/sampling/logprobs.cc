#include "runner/sampling/logprobs.h"

#include <algorithm>

#include "runner/backend/numerics.h"
#include "runner/check.h"
#include "runner/sampling/exp_sum.h"

namespace runnel {
namespace {

// Keeps the best num_top ids of a single pass, in order; num_top is small.
std::vector<uint32_t> most_likely_ids(std::span<const float> logits, uint32_t num_top) {
  std::vector<uint32_t> top;
  if (num_top == 0) return top;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    const bool is_full = top.size() == num_top;
    if (is_full && logits[id] <= logits[top.back()]) continue;
    if (is_full) top.pop_back();
    const auto place = std::ranges::find_if(top, [&](uint32_t other) { return logits[id] > logits[other]; });
    top.insert(place, id);
  }
  return top;
}

}  // namespace

TokenLogprobs compute_logprobs(std::span<const float> logits, uint32_t token_id, uint32_t num_top) {
  CHECK(token_id < logits.size());
  const double max = *std::ranges::max_element(logits);
  const double log_total = max + log_f64(exp_sum(logits, max));

  TokenLogprobs result;
  result.logprob = static_cast<float>(logits[token_id] - log_total);
  result.top_ids = most_likely_ids(logits, num_top);
  for (const uint32_t id : result.top_ids)
    result.top_logprobs.push_back(static_cast<float>(logits[id] - log_total));
  return result;
}

}  // namespace runnel
