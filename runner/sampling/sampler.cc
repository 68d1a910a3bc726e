#include "runner/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runner/backend/numerics.h"
#include "runner/check.h"
#include "runner/sampling/exp_sum.h"
#include "runner/sampling/gumbel.h"
#include "runner/sampling/id_bits.h"

namespace runnel {
namespace {

// The logit of a masked token. Biases, penalties and temperature do not change it.
constexpr double kMasked = -std::numeric_limits<double>::infinity();

// Up to this k, a heap of the best is cheaper than moving the whole vocabulary about.
constexpr uint32_t kMaxHeapK = 1024;

}  // namespace

bool all_finite(std::span<const float> logits) {
  return std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
}

Sampler::Sampler(uint32_t vocab_size) : counts_(vocab_size) {
  candidates_.reserve(vocab_size);
  scratch_.reserve(vocab_size);
  weighted_.reserve(vocab_size);
  logits_.reserve(vocab_size);
  weights_.reserve(vocab_size);
}

uint32_t Sampler::sample(std::span<const float> logits, std::span<const uint32_t> token_ids,
                         uint32_t num_prompt_tokens, const SamplingParams& params,
                         std::span<const uint32_t> masked_ids, std::span<const uint32_t> allowed_bits) {
  CHECK(logits.size() == counts_.size());
  candidates_.clear();
  for (uint32_t id = 0; id < logits.size(); ++id) candidates_.push_back({logits[id], id});

  if (!params.allowed_ids.empty()) mask_all_but(params.allowed_ids);
  if (!allowed_bits.empty()) mask_all_but_bits(allowed_bits);
  mask(params.banned_ids);
  mask(masked_ids);
  add_biases(params.logit_bias);
  if (params.repetition_penalty != 1.0f) penalize_repetition(token_ids, params.repetition_penalty);
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    penalize_generated(token_ids.subspan(num_prompt_tokens), params.presence_penalty,
                       params.frequency_penalty);
  }
  drop_masked();
  if (params.temperature < kGreedyTemperature) return most_likely().id;
  for (Candidate& candidate : candidates_) candidate.logit /= static_cast<double>(params.temperature);
  if (params.top_k > 0) keep_top_k(params.top_k);
  if (params.top_p < 1.0f) keep_top_p(params.top_p);
  if (params.min_p > 0.0f) keep_min_p(params.min_p);
  return draw(params.seed, static_cast<uint32_t>(token_ids.size()));
}

std::vector<uint32_t> Sampler::kept_ids() const {
  std::vector<uint32_t> ids;
  for (const Candidate& candidate : candidates_) ids.push_back(candidate.id);
  return ids;
}

bool Sampler::precedes(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

void Sampler::mask(std::span<const uint32_t> ids) {
  for (const uint32_t id : ids) candidates_[id].logit = kMasked;
}

void Sampler::mask_all_but(std::span<const uint32_t> ids) {
  scratch_.clear();
  for (const uint32_t id : ids) scratch_.push_back(candidates_[id]);
  for (Candidate& candidate : candidates_) candidate.logit = kMasked;
  for (const Candidate& allowed : scratch_) candidates_[allowed.id] = allowed;
}

void Sampler::mask_all_but_bits(std::span<const uint32_t> allowed_bits) {
  CHECK(allowed_bits.size() == num_id_words(static_cast<uint32_t>(counts_.size())));
  for (Candidate& candidate : candidates_)
    if (!has_id(allowed_bits, candidate.id)) candidate.logit = kMasked;
}

void Sampler::drop_masked() {
  std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.logit == kMasked; });
  CHECK(!candidates_.empty());
}

void Sampler::add_biases(std::span<const LogitBias> biases) {
  for (const LogitBias& entry : biases) candidates_[entry.token_id].logit += entry.bias;
}

void Sampler::penalize_repetition(std::span<const uint32_t> token_ids, double penalty) {
  for (const uint32_t id : token_ids) {
    if (counts_[id]++ > 0) continue;
    double& logit = candidates_[id].logit;
    logit = logit > 0.0 ? logit / penalty : logit * penalty;
  }
  for (const uint32_t id : token_ids) counts_[id] = 0;
}

void Sampler::penalize_generated(std::span<const uint32_t> generated_ids, double presence, double frequency) {
  for (const uint32_t id : generated_ids) ++counts_[id];
  for (const uint32_t id : generated_ids) {
    if (counts_[id] == 0) continue;  // an id that was handled before
    candidates_[id].logit -= presence + frequency * counts_[id];
    counts_[id] = 0;
  }
}

void Sampler::keep_top_k(uint32_t k) {
  if (k >= candidates_.size()) return;
  if (k <= kMaxHeapK) {
    scratch_.resize(k);
    std::ranges::partial_sort_copy(candidates_, scratch_, precedes);
  } else {
    scratch_ = candidates_;
    std::nth_element(scratch_.begin(), scratch_.begin() + (k - 1), scratch_.end(), precedes);
  }
  keep_until(scratch_[k - 1]);
}

void Sampler::keep_top_p(double p) {
  logits_.clear();
  for (const Candidate& candidate : candidates_) logits_.push_back(candidate.logit);
  weights_.resize(candidates_.size());
  const uint64_t total = exp_weights(logits_, most_likely().logit, weights_);
  const auto needed = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(p * static_cast<double>(total))));
  // Candidates of at most this weight have together at most total - needed, so none of them is needed.
  const uint64_t negligible = (total - needed) / candidates_.size();
  weighted_.clear();
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (weights_[i] > negligible) weighted_.push_back({candidates_[i], weights_[i]});

  // Finds the last candidate to keep by halving: begin to middle precede middle to end, without order inside.
  auto begin = weighted_.begin();
  auto end = weighted_.end();
  uint64_t before = 0;  // the weight of all before begin
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end,
                     [](const Weighted& a, const Weighted& b) { return precedes(a.candidate, b.candidate); });
    const uint64_t with_half = std::accumulate(
        begin, middle, before, [](uint64_t sum, const Weighted& entry) { return sum + entry.weight; });
    if (with_half >= needed) {
      end = middle;
    } else {
      before = with_half;
      begin = middle;
    }
  }
  keep_until(begin->candidate);
}

void Sampler::keep_min_p(double p) {
  const double least = most_likely().logit + log_f64(p);
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.logit < least; });
}

void Sampler::keep_until(const Candidate& last) {
  std::erase_if(candidates_, [&](const Candidate& candidate) { return precedes(last, candidate); });
}

const Sampler::Candidate& Sampler::most_likely() const {
  // The first of equal candidates, which has the lowest id.
  return *std::ranges::max_element(candidates_, {}, &Candidate::logit);
}

uint32_t Sampler::draw(uint64_t seed, uint32_t position) const {
  // One call of the generator gives the bits of four neighbouring ids.
  uint32_t group_in_hand = ~0u;
  std::array<uint32_t, 4> bits;
  const auto bits_of = [&](uint32_t id) {
    if (id / 4 != group_in_hand) {
      group_in_hand = id / 4;
      bits = gumbel_bits(seed, position, group_in_hand);
    }
    return bits[id % 4];
  };

  // The most likely candidate goes first: few others can beat it, and the bounds save their logarithms.
  Candidate best = most_likely();
  best.logit += gumbel(bits_of(best.id));
  for (const auto& [logit, id] : candidates_) {
    if (logit + kMaxGumbel < best.logit || logit + gumbel_bound(bits_of(id)) < best.logit) continue;
    const Candidate drawn = {logit + gumbel(bits_of(id)), id};
    if (precedes(drawn, best)) best = drawn;
  }
  return best.id;
}

}  // namespace runnel
