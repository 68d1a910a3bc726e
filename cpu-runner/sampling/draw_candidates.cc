#include "cpu-runner/sampling/draw_candidates.h"

#include <array>

#include "runner/check.h"

namespace runnel {
namespace {

constexpr uint32_t kNumBuckets = 512;
// At most this many candidates are sorted.
constexpr size_t kFewCandidates = 64;

}  // namespace

LastNeeded last_needed(std::vector<WeightedCandidate>& candidates, uint64_t needed) {
  CHECK(!candidates.empty());
  uint64_t before = 0;  // the weight of the candidates that were dropped because all of them are kept
  // Candidates are put into buckets by their logits, and only the bucket in which the sum reaches needed is
  // looked into. This does not require that weights grow with logits.
  while (candidates.size() > kFewCandidates) {
    const auto [low, high] = std::ranges::minmax(
        candidates, {}, [](const WeightedCandidate& entry) { return entry.candidate.logit; });
    const double top = high.candidate.logit;
    const double scale = (kNumBuckets - 1) / (top - low.candidate.logit);
    if (!(scale < std::numeric_limits<double>::max())) break;  // all are equally likely, or nearly
    const auto bucket_of = [&](const WeightedCandidate& entry) {
      return std::min(static_cast<uint32_t>((top - entry.candidate.logit) * scale), kNumBuckets - 1);
    };
    std::array<uint64_t, kNumBuckets> sums{};
    for (const WeightedCandidate& entry : candidates) sums[bucket_of(entry)] += entry.weight;
    uint32_t bucket = 0;
    while (before + sums[bucket] < needed) before += sums[bucket++];
    const size_t num_before = candidates.size();
    std::erase_if(candidates, [&](const WeightedCandidate& entry) { return bucket_of(entry) != bucket; });
    if (candidates.size() == num_before) break;
  }
  std::ranges::sort(candidates, [](const WeightedCandidate& a, const WeightedCandidate& b) {
    return precedes(a.candidate, b.candidate);
  });
  for (const auto& [candidate, weight] : candidates) {
    before += weight;
    if (before >= needed) return {candidate, before};
  }
  CHECK(false);
  return {kLastCandidate, before};
}

}  // namespace runnel
