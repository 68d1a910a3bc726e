// Measures the time of a draw from a large vocabulary. It is run by hand, because it asserts nothing:
//   build/runner-tests --no-skip --test-case="sampler cost*"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "runner/sampling/sampler.h"
#include "test/fixtures/model_like_logits.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kLargeVocabSize = 150000;
constexpr uint32_t kNumDraws = 41;

double median_us(Sampler& sampler, const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<uint32_t> token_ids(kNumDraws);
  std::vector<double> times_us;
  for (uint32_t position = 1; position <= kNumDraws; ++position) {
    const auto start = std::chrono::steady_clock::now();
    sampler.sample(logits, std::span(token_ids).first(position), 1, params);
    times_us.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(times_us, times_us.begin() + kNumDraws / 2);
  return times_us[kNumDraws / 2];
}

}  // namespace

TEST_CASE("sampler cost: microseconds per sample from 150,000 logits" * doctest::skip()) {
  Sampler sampler(kLargeVocabSize);
  std::vector<uint32_t> allowed(1024);
  std::iota(allowed.begin(), allowed.end(), 5000u);
  const std::pair<const char*, SamplingParams> settings[] = {
      {"greedy", {.temperature = 0.0f}},
      {"plain", {}},
      {"top_k 50", {.top_k = 50}},
      {"top_p 0.95", {.top_p = 0.95f}},
      {"top_k 50, top_p 0.95, min_p 0.05", {.top_k = 50, .top_p = 0.95f, .min_p = 0.05f}},
      {"min_p 0.05", {.min_p = 0.05f}},
      {"1024 allowed, top_p 0.95", {.top_p = 0.95f, .allowed_ids = allowed}},
  };
  const std::pair<const char*, std::vector<float>> models[] = {
      {"sure", test::model_like_logits(kLargeVocabSize, 2.0f, 50)},
      {"unsure", test::model_like_logits(kLargeVocabSize, 3.0f, 0)},
      {"flat", test::model_like_logits(kLargeVocabSize, 0.1f, 0)}};
  for (const auto& [model, logits] : models)
    for (const auto& [name, params] : settings)
      std::printf("%-8s %-34s %8.0f us\n", model, name, median_us(sampler, logits, params));
}

}  // namespace runnel
