#include "runner/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runner/check.h"
#include "runner/numerics.h"
#include "runner/sampling/exp_sum.h"
#include "runner/sampling/philox.h"

namespace runnel {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// The uniform number that a generator's 32 bits stand for is (bits + 0.5) / 2^32, never 0 or 1.
double gumbel(uint32_t bits) {
  const double u = (bits + 0.5) * 0x1p-32;
  return -log_f64(-log_f64(u));
}

// An upper bound of gumbel(bits) that costs no logarithm: -log(-log u) <= -log(1 - u), and 1 - u >= 2^-(n +
// 1) where n is the number of leading ones of bits.
double gumbel_bound(uint32_t bits) {
  return (std::countl_one(bits) + 1) * kLn2 + 1e-9;
}
constexpr double kMaxGumbel = 33 * kLn2 + 1e-9;

}  // namespace

bool all_finite(std::span<const float> logits) {
  return std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
}

Sampler::Sampler(uint32_t vocab_size) : counts_(vocab_size) {
  candidates_.reserve(vocab_size);
  scratch_.reserve(vocab_size);
  logits_.reserve(vocab_size);
}

uint32_t Sampler::sample(std::span<const float> logits, std::span<const uint32_t> token_ids,
                         uint32_t num_prompt_tokens, const SamplingParams& params) {
  CHECK(logits.size() == counts_.size());
  candidates_.clear();
  for (uint32_t id = 0; id < logits.size(); ++id) candidates_.push_back({logits[id], id});

  add_biases(params.logit_bias);
  if (params.repetition_penalty != 1.0f) penalize_repetition(token_ids, params.repetition_penalty);
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    penalize_generated(token_ids.subspan(num_prompt_tokens), params.presence_penalty,
                       params.frequency_penalty);
  }
  if (params.temperature < kGreedyTemperature) return most_likely().id;
  for (Candidate& candidate : candidates_) candidate.logit /= static_cast<double>(params.temperature);
  if (params.top_k > 0) keep_top_k(params.top_k);
  if (params.top_p < 1.0f) keep_top_p(params.top_p);
  if (params.min_p > 0.0f) keep_min_p(params.min_p);
  return draw(params.seed, static_cast<uint32_t>(token_ids.size()));
}

bool Sampler::precedes(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
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
    if (counts_[id] == 0) continue;  // not its first time
    candidates_[id].logit -= presence + frequency * counts_[id];
    counts_[id] = 0;
  }
}

void Sampler::keep_top_k(uint32_t k) {
  if (k >= candidates_.size()) return;
  scratch_ = candidates_;
  const auto last = scratch_.begin() + (k - 1);
  std::nth_element(scratch_.begin(), last, scratch_.end(), precedes);
  keep_until(*last);
}

void Sampler::keep_top_p(double p) {
  const double max = most_likely().logit;
  logits_.clear();
  for (const Candidate& candidate : candidates_) logits_.push_back(candidate.logit);
  const double total = exp_sum(logits_, max);
  // A heap gives as many candidates in order as are needed, without sorting the rest.
  const auto comes_later = [](const Candidate& a, const Candidate& b) { return precedes(b, a); };
  scratch_ = candidates_;
  std::ranges::make_heap(scratch_, comes_later);
  double mass = 0.0;
  while (true) {
    std::ranges::pop_heap(scratch_, comes_later);
    const Candidate next = scratch_.back();
    scratch_.pop_back();
    mass += exp_f64(next.logit - max);
    // The last candidate ends it too: rounding may leave the mass of all below total.
    if (mass >= p * total || scratch_.empty()) return keep_until(next);
  }
}

void Sampler::keep_min_p(double p) {
  const double least = most_likely().logit + log_f64(p);
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.logit < least; });
}

void Sampler::keep_until(const Candidate& last) {
  std::erase_if(candidates_, [&](const Candidate& candidate) { return precedes(last, candidate); });
}

const Sampler::Candidate& Sampler::most_likely() const {
  return *std::ranges::min_element(candidates_, precedes);
}

uint32_t Sampler::draw(uint64_t seed, uint32_t position) const {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  // One call of the generator serves four neighbouring ids.
  uint32_t group_in_hand = ~0u;
  std::array<uint32_t, 4> bits;
  const auto bits_of = [&](uint32_t id) {
    if (id / 4 != group_in_hand) {
      group_in_hand = id / 4;
      bits = philox4x32({group_in_hand, position, 0, 0}, key);
    }
    return bits[id % 4];
  };

  // The most likely one first: few can beat it, and the bounds spare the others their logarithms.
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
