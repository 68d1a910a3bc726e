// Measures the time of a draw by Sampler and by DrawnRows. It takes the least of several times, since other
// work on the machine only adds to them. It is run by hand, because it asserts nothing:
//   build/cpu-runner-tests --no-skip --test-case="draw cost*"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "cpu-runner/sampling/drawn_rows.h"
#include "runner/sampling/sampler.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/model_like_logits.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kNumRows = 32;
constexpr uint32_t kNumTimes = 31;

double least_us(const std::function<void(uint32_t time)>& work) {
  std::vector<double> times_us;
  for (uint32_t time = 0; time < kNumTimes; ++time) {
    const auto start = std::chrono::steady_clock::now();
    work(time);
    times_us.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return std::ranges::min(times_us);
}

double rows_us(DrawnRows& rows, uint32_t num_rows, const std::vector<float>& logits,
               const SamplingParams& params) {
  const std::vector<uint32_t> token_ids(1000, 7);
  return least_us([&](uint32_t time) {
           std::vector<HeadRow> head_rows;
           for (uint32_t i = 0; i < num_rows; ++i) {
             const std::span<const uint32_t> so_far = std::span(token_ids).first(1 + time * num_rows + i);
             head_rows.push_back({.row = i, .draw = Draw{so_far, 1, params, {}}});
           }
           const auto to = rows.start(head_rows);
           if (time == 0)
             for (uint32_t i = 0; i < num_rows; ++i)
               std::ranges::copy(logits, to.begin() + size_t{i} * logits.size());
           rows.draw();
         }) /
         num_rows;
}

}  // namespace

TEST_CASE("draw cost: microseconds per sample, for one row and for 32" * doctest::skip()) {
  const std::pair<const char*, SamplingParams> settings[] = {
      {"greedy", {.temperature = 0.0f}},
      {"temperature 0.8", {.temperature = 0.8f}},
      {"top_p 0.95", {.temperature = 0.8f, .top_p = 0.95f}},
      {"top_k 40, top_p 0.95, penalty",
       {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .repetition_penalty = 1.1f}},
      {"top_k 500", {.temperature = 0.8f, .top_k = 500}},
      {"min_p 0.05", {.temperature = 0.8f, .min_p = 0.05f}},
  };
  const Kernels& kernels = *test::kernel_tables().back();
  const auto one = std::move(*ThreadPool::create(1));
  const auto two = std::move(*ThreadPool::create(2));
  std::printf("%s\n%38s %10s %10s %10s %10s %10s\n", kernels.name, "rows x threads:", "Sampler", "1 x 1",
              "1 x 2", "32 x 1", "32 x 2");
  for (const uint32_t vocab_size : {49152u, 262144u}) {
    Sampler sampler(vocab_size);
    DrawnRows alone(kernels.draw, *one, kNumRows, vocab_size);
    DrawnRows both(kernels.draw, *two, kNumRows, vocab_size);
    const std::pair<const char*, std::vector<float>> models[] = {
        {"sure", test::model_like_logits(vocab_size, 2.0f, 50)},
        {"unsure", test::model_like_logits(vocab_size, 3.0f, 0)},
        {"flat", test::model_like_logits(vocab_size, 0.1f, 0)}};
    for (const auto& [model, logits] : models) {
      for (const auto& [name, params] : settings) {
        const std::vector<uint32_t> token_ids(kNumTimes, 7);
        const double sampler_us = least_us(
            [&](uint32_t time) { sampler.sample(logits, std::span(token_ids).first(1 + time), 1, params); });
        std::printf("%6u %-7s %-30s %6.0f %10.1f %10.1f %10.1f %10.1f\n", vocab_size, model, name, sampler_us,
                    rows_us(alone, 1, logits, params), rows_us(both, 1, logits, params),
                    rows_us(alone, kNumRows, logits, params), rows_us(both, kNumRows, logits, params));
      }
    }
  }
}

}  // namespace runnel
