//   exactness --cases 2000                       tiny models of every type of weights
//   exactness --cases 50 --model model.gguf      a real one
//   exactness --seed 7 --case 12                 one case again
#include "test/exactness/program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "test/exactness/crowd.h"
#include "test/exactness/tiny_models.h"

namespace runnel::exactness {
namespace {

// The share of cases that each event should happen in.
constexpr uint32_t kEventPercent = 5;
constexpr uint32_t kMaxFailuresShown = 10;

// The least number of cases that an event must happen in: its share of num_cases, less three standard
// deviations for chance, and at least 1.
double min_cases_with_event(uint32_t num_cases) {
  const double share = num_cases * kEventPercent / 100.0;
  return std::max(1.0, share - 3.0 * std::sqrt(share));
}

struct Flags {
  std::string program;  // argv[0]
  uint32_t num_cases = 2000;
  uint64_t seed = 0;
  std::optional<uint32_t> only_case;
  std::string model;
};

// The message for the current case. It is global so that a signal handler can print it when a CHECK ends the
// program.
char how_to_repeat[4096];

void say_how_to_repeat(int signal_number) {
  [[maybe_unused]] const ssize_t num_written =
      write(STDERR_FILENO, how_to_repeat, std::strlen(how_to_repeat));
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

class Exactness {
 public:
  Exactness(const Contender& contender, const Flags& flags, const std::vector<std::string>& models)
      : flags_(flags), sizes_(flags.model.empty() ? contender.tiny : contender.real) {
    // A real model is large, so it is loaded with one type of the cache only.
    const auto add = [&](const std::string& model, KvType type) -> Subject& {
      return subjects_.emplace_back(contender, model, type, sizes_.num_devices);
    };
    for (const std::string& model : models) {
      add(model, KvType::kF16);
      if (!flags.model.empty()) continue;
      // Q8_0 stores heads in blocks of 32 values.
      if (add(model, KvType::kF32).head_dim() % 32 == 0) add(model, KvType::kQ8_0);
    }
  }

  void run_case(uint32_t number) {
    std::snprintf(how_to_repeat, sizeof how_to_repeat, "To see it alone: %s --seed %llu --case %u%s%s\n",
                  flags_.program.c_str(), static_cast<unsigned long long>(flags_.seed), number,
                  flags_.model.empty() ? "" : " --model ", flags_.model.c_str());
    Random random(flags_.seed, number);
    const Subject& subject = subjects_[random.below(static_cast<uint32_t>(subjects_.size()))];
    const Case of_case = random_case(random, sizes_, subject.vocab_size());
    const Answer alone = subject.answer_alone(of_case.request, of_case.max_model_len);
    Crowd crowd(subject, sizes_, of_case, random);
    const Answer together = crowd.run();
    num_tokens_ += alone.size();
    for (size_t i = 0; i < kNumEvents; ++i) num_cases_with_[i] += crowd.events().has(i);
    std::string what = difference(alone, together);
    for (const Crowd::Vector& vector : crowd.vectors()) {
      ++num_vectors_;
      const std::vector<float> wanted =
          subject.vector_alone(vector.request, vector.pooling, of_case.max_model_len);
      const size_t num_bytes = wanted.size() * sizeof(float);
      const bool is_same = wanted.size() == vector.values.size() &&
                           std::memcmp(wanted.data(), vector.values.data(), num_bytes) == 0;
      if (!is_same)
        what = "the vector of request " + std::to_string(vector.request.request_id()) + ", near it";
    }
    if (!what.empty() && ++num_failed_ <= kMaxFailuresShown)
      std::printf("FAILED, not the same: %s. %s", what.c_str(), how_to_repeat);
  }

  // Prints the number of cases with each event. Returns false if a case differed, or if an event happened in
  // too few cases.
  bool report(uint32_t num_cases) const {
    bool is_good = num_failed_ == 0;
    std::printf("%u cases, %llu tokens, %llu vectors, %u different\n", num_cases,
                static_cast<unsigned long long>(num_tokens_), static_cast<unsigned long long>(num_vectors_),
                num_failed_);
    for (size_t i = 0; i < kNumEvents; ++i) {
      if (!is_possible(static_cast<Event>(i))) continue;
      const bool is_enough = num_cases_with_[i] >= min_cases_with_event(num_cases);
      std::printf("  %-18s %5u  %5.1f %%%s\n", kEventNames[i], num_cases_with_[i],
                  100.0 * num_cases_with_[i] / num_cases, is_enough ? "" : "  TOO FEW");
      is_good &= is_enough || flags_.only_case.has_value();
    }
    return is_good;
  }

 private:
  bool is_possible(Event event) const {
    switch (event) {
      case Event::kThreads:
      case Event::kNodes:
        return sizes_.has_threads;
      case Event::kPortable:
        return sizes_.has_portable_kernels;
      case Event::kEager:
      case Event::kReplayed:
      case Event::kAhead:
        return sizes_.has_graphs;
      case Event::kDevices:
        return sizes_.num_devices > 1;
      case Event::kNccl:
        return sizes_.has_nccl;
      default:
        return true;
    }
  }

  const Flags& flags_;
  const Sizes& sizes_;
  std::vector<Subject> subjects_;
  std::array<uint32_t, kNumEvents> num_cases_with_{};
  uint32_t num_failed_ = 0;
  uint64_t num_tokens_ = 0;
  uint64_t num_vectors_ = 0;
};

int run(const Contender& contender, const Flags& flags) {
  const auto start = std::chrono::steady_clock::now();
  std::printf("seed %llu\n", static_cast<unsigned long long>(flags.seed));
  std::fflush(stdout);
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE})
    std::signal(signal_number, say_how_to_repeat);
  const TinyModels tiny;
  Exactness exactness(contender, flags, flags.model.empty() ? tiny.paths() : std::vector{flags.model});
  const uint32_t first = flags.only_case.value_or(0);
  const uint32_t num_cases = flags.only_case ? 1 : flags.num_cases;
  for (uint32_t number = first; number < first + num_cases; ++number) exactness.run_case(number);
  const bool is_good = exactness.report(num_cases);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%s in %.1f s\n", is_good ? "passed" : "FAILED", seconds.count());
  return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Without CLI11, which takes longer to compile than the rest of the program.
bool read_flags(int argc, const char* const* argv, Flags& flags) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) return false;
    const std::string_view value = argv[i + 1];
    bool is_good = false;
    if (name == "--cases") is_good = read_number(value, flags.num_cases) && flags.num_cases > 0;
    if (name == "--seed") is_good = read_number(value, flags.seed);
    if (name == "--case") is_good = read_number(value, flags.only_case.emplace());
    if (name == "--model") is_good = !(flags.model = value).empty();
    if (!is_good) return false;
  }
  return true;
}

}  // namespace

int run_program(int argc, const char* const* argv, const Contender& contender) {
  Flags flags;
  flags.program = argv[0];
  std::random_device device;
  flags.seed = uint64_t{device()} << 32 | device();
  if (!read_flags(argc, argv, flags)) {
    std::fprintf(stderr, "usage: %s [--cases N] [--seed N] [--case N] [--model FILE]\n", argv[0]);
    return EXIT_FAILURE;
  }
  return run(contender, flags);
}

}  // namespace runnel::exactness
