// Exactness, the promise of docs/numerics.md, on random cases: a request's ids, and every bit of the logits
// they are drawn from, are the same computed alone and plainly as among others, in chunks, from a warm cache,
// after preemptions, pauses and kills, on any number of threads, by either table of kernels.
//
//   exactness --cases 2000                       tiny models of every type of weights
//   exactness --cases 50 --model model.gguf      a real one
//   exactness --seed 7 --case 12                 one case again
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "test/cpu-runner/exactness/crowd.h"
#include "test/cpu-runner/exactness/tiny_models.h"

namespace runnel::exactness {
namespace {

// Each event must have met at least so many of the cases, in hundredths.
constexpr uint32_t kMinEventPercent = 5;
constexpr uint32_t kMaxFailuresShown = 10;
constexpr Sizes kTinySizes{
    .max_prompt_tokens = 40, .max_answer_tokens = 40, .max_neighbours = 7, .portable_kernels = true};
constexpr Sizes kRealSizes{
    .max_prompt_tokens = 48, .max_answer_tokens = 32, .max_neighbours = 5, .portable_kernels = false};

struct Flags {
  uint32_t num_cases = 2000;
  uint64_t seed = 0;
  std::optional<uint32_t> only_case;
  std::string model;
};

// Of the case that is computed, here so that it can be said even when the program dies of a CHECK.
char how_to_repeat[4096];

void say_how_to_repeat(int signal_number) {
  [[maybe_unused]] const ssize_t num_written =
      write(STDERR_FILENO, how_to_repeat, std::strlen(how_to_repeat));
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

class Exactness {
 public:
  Exactness(const Flags& flags, const std::vector<std::string>& models)
      : flags_(flags), sizes_(flags.model.empty() ? kTinySizes : kRealSizes) {
    // A real model is large, so there is one of it.
    for (const std::string& model : models) {
      subjects_.emplace_back(model, KvType::kF16);
      if (!flags.model.empty()) continue;
      subjects_.emplace_back(model, KvType::kF32);
      // Q8_0 stores heads in blocks of 32 values.
      if (subjects_.back().head_dim() % 32 == 0) subjects_.emplace_back(model, KvType::kQ8_0);
    }
  }

  void run_case(uint32_t number) {
    std::snprintf(how_to_repeat, sizeof how_to_repeat,
                  "To see it alone: exactness --seed %llu --case %u%s%s\n",
                  static_cast<unsigned long long>(flags_.seed), number,
                  flags_.model.empty() ? "" : " --model ", flags_.model.c_str());
    Random random(flags_.seed, number);
    const Subject& subject = subjects_[random.below(static_cast<uint32_t>(subjects_.size()))];
    const Case of_case = random_case(random, sizes_, subject.vocab_size());
    const Answer alone = subject.answer_alone(of_case.request, of_case.max_model_len);
    Crowd crowd(subject, sizes_, of_case, random);
    const Answer together = crowd.run();
    num_tokens_ += alone.size();
    for (size_t i = 0; i < kNumEvents; ++i) num_cases_with_[i] += crowd.events().has(i);
    const std::string what = difference(alone, together);
    if (!what.empty() && ++num_failed_ <= kMaxFailuresShown)
      std::printf("FAILED, not the same: %s. %s", what.c_str(), how_to_repeat);
  }

  // What the cases met. False if one of them differed or too few met something.
  bool report(uint32_t num_cases) const {
    bool is_good = num_failed_ == 0;
    std::printf("%u cases, %llu tokens, %u different\n", num_cases,
                static_cast<unsigned long long>(num_tokens_), num_failed_);
    for (size_t i = 0; i < kNumEvents; ++i) {
      if (i == static_cast<size_t>(Event::kPortable) && !sizes_.portable_kernels) continue;
      const bool is_enough = num_cases_with_[i] * 100 >= num_cases * kMinEventPercent;
      std::printf("  %-18s %5u  %5.1f %%%s\n", kEventNames[i], num_cases_with_[i],
                  100.0 * num_cases_with_[i] / num_cases, is_enough ? "" : "  TOO FEW");
      is_good &= is_enough || flags_.only_case.has_value();
    }
    return is_good;
  }

 private:
  const Flags& flags_;
  const Sizes& sizes_;
  std::vector<Subject> subjects_;
  std::array<uint32_t, kNumEvents> num_cases_with_{};
  uint32_t num_failed_ = 0;
  uint64_t num_tokens_ = 0;
};

int run(const Flags& flags) {
  const auto start = std::chrono::steady_clock::now();
  std::printf("seed %llu\n", static_cast<unsigned long long>(flags.seed));
  std::fflush(stdout);
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE})
    std::signal(signal_number, say_how_to_repeat);
  const TinyModels tiny;
  Exactness exactness(flags, flags.model.empty() ? tiny.paths() : std::vector{flags.model});
  const uint32_t first = flags.only_case.value_or(0);
  const uint32_t num_cases = flags.only_case ? 1 : flags.num_cases;
  for (uint32_t number = first; number < first + num_cases; ++number) exactness.run_case(number);
  const bool is_good = exactness.report(num_cases);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%s in %.1f s\n", is_good ? "passed" : "FAILED", seconds.count());
  return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace runnel::exactness

int main(int argc, char** argv) {
  runnel::exactness::Flags flags;
  std::random_device device;
  flags.seed = uint64_t{device()} << 32 | device();
  CLI::App app("Compares requests computed alone with the same requests computed among others.", "exactness");
  app.add_option("--cases", flags.num_cases, "How many")
      ->check(CLI::Range(1u, 1'000'000u))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Of the cases; default: another one each time");
  app.add_option("--case", flags.only_case, "Run this one only");
  app.add_option("--model", flags.model, "A GGUF file in place of the tiny models");
  CLI11_PARSE(app, argc, argv);
  return runnel::exactness::run(flags);
}
