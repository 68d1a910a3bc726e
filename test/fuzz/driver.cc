// Runs a fuzz target on mutations of its corpus, in one process. The same seed gives the same mutations. An
// input with a new outcome is added to the corpus.
//
//   fuzz-gguf --units 200000 [--seed 1]    mutates until this many units were read
//   fuzz-gguf --units 200000 --seconds 45  or until it has had this much processor time
//   fuzz-gguf FILE...                      runs these inputs, for example that of a finding
//   fuzz-events --units N --write          also writes the mutated inputs to stdout, each after its length
//
// A finding (a crash, a sanitizer's report, a broken property, more than a second for one input) ends the
// process with the input in a file. The last line has the counts.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "test/fuzz/random.h"
#include "test/fuzz/target.h"

extern "C" {
void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));
// All inputs are far smaller than the limit of an allocation, so a larger one has trusted a length of the
// input. No other exit uses status 86.
const char* __asan_default_options() {
  return "exitcode=86:max_allocation_size_mb=72:malloc_context_size=3:quarantine_size_mb=8:detect_leaks=1";
}
const char* __ubsan_default_options() {
  return "print_stacktrace=1:halt_on_error=1";
}
}

namespace runnel::fuzz {
namespace {

constexpr size_t kMaxInputBytes = 1u << 20;
constexpr size_t kMaxCorpus = 2000;
constexpr uint64_t kMaxSeconds = 100'000;  // without --seconds
constexpr std::chrono::milliseconds kMaxInputTime{1000};

struct Progress {
  uint64_t num_units = 0;
  uint64_t num_inputs = 0;
  bool is_new = false;  // the current input has had a new outcome
  std::set<std::string> outcomes;
  std::string input;
};
Progress progress;

// The outcome without digits and without text in quotes.
std::string kind_of(std::string_view outcome) {
  std::string kind;
  bool is_quoted = false;
  for (const char c : outcome) {
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted && (c < '0' || c > '9')) kind += c;
  }
  return kind;
}

// Must be as simple as possible, since it is also called when memory may be corrupted.
void keep_input() {
  char path[64];
  std::snprintf(path, sizeof path, "fuzz-finding-%d.bin", static_cast<int>(getpid()));
  if (FILE* file = std::fopen(path, "wb")) {
    std::fwrite(progress.input.data(), 1, progress.input.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "Finding at input %llu; it is in %s.\n",
               static_cast<unsigned long long>(progress.num_inputs), path);
}

void on_fatal_signal(int signal) {
  keep_input();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void watch_for_deaths() {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_input);
  std::signal(SIGABRT, on_fatal_signal);
  if (__sanitizer_set_death_callback != nullptr) return;  // AddressSanitizer handles the other signals
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_fatal_signal);
}

// The processor time of this thread or process, which does not depend on other load on the machine.
std::chrono::nanoseconds processor_time(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

void run_input(std::string input) {
  progress.input = std::move(input);
  progress.is_new = false;
  ++progress.num_inputs;
  const std::chrono::nanoseconds begin = processor_time(CLOCK_THREAD_CPUTIME_ID);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(progress.input.data()), progress.input.size());
  if (processor_time(CLOCK_THREAD_CPUTIME_ID) - begin > kMaxInputTime)
    finding("An input takes more than a second.");
}

std::string mutation_of(const std::string& input, uint64_t seed) {
  static std::vector<uint8_t> buffer(kMaxInputBytes);  // large, so it is allocated once
  // Not copied by iterators, which with sanitizers make a call for each byte.
  std::memcpy(buffer.data(), input.data(), input.size());
  const size_t size =
      LLVMFuzzerCustomMutator(buffer.data(), input.size(), kMaxInputBytes, static_cast<unsigned int>(seed));
  return {reinterpret_cast<const char*>(buffer.data()), size};
}

void write_input(const std::string& input) {
  const auto length = static_cast<uint32_t>(input.size());
  std::fwrite(&length, sizeof length, 1, stdout);
  std::fwrite(input.data(), 1, input.size(), stdout);
}

// end: of the processor time of all threads.
void fuzz(uint64_t num_wanted, std::chrono::nanoseconds end, uint64_t seed, bool writes) {
  std::vector<std::string> corpus = seed_corpus();
  const size_t num_seeds = corpus.size();
  for (const std::string& input : corpus) run_input(input);
  Random random(seed);
  while (progress.num_units < num_wanted && processor_time(CLOCK_PROCESS_CPUTIME_ID) < end) {
    // Half of the mutations are made from the first inputs, so that later ones do not displace them.
    const size_t num_choices = random.one_in(2) ? num_seeds : corpus.size();
    run_input(mutation_of(corpus[random.below(num_choices)], random.next()));
    if (writes) write_input(progress.input);
    if (progress.is_new && corpus.size() < kMaxCorpus) corpus.push_back(progress.input);
  }
}

int run_files(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    run_input({std::istreambuf_iterator<char>(file), {}});
  }
  return 0;
}

// The number after a flag, or `otherwise` without the flag.
uint64_t number_of(int argc, char** argv, std::string_view flag, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (flag == argv[i]) return std::strtoull(argv[i + 1], nullptr, 10);
  return otherwise;
}

bool has_flag(int argc, char** argv, std::string_view flag) {
  return std::any_of(argv + 1, argv + argc, [&](const char* arg) { return flag == arg; });
}

}  // namespace

void tell_outcome(std::string_view outcome) {
  ++progress.num_units;
  if (progress.outcomes.insert(kind_of(outcome)).second) progress.is_new = true;
}

void finding(std::string_view sentence) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(sentence.size()), sentence.data());
  std::abort();
}

int run(int argc, char** argv) {
  watch_for_deaths();
  if (argc > 1 && argv[1][0] != '-') return run_files(argc, argv);
  const std::chrono::nanoseconds begin = processor_time(CLOCK_PROCESS_CPUTIME_ID);
  const uint64_t seed = number_of(argc, argv, "--seed", 1);
  const std::chrono::seconds most(number_of(argc, argv, "--seconds", kMaxSeconds));
  fuzz(number_of(argc, argv, "--units", 10'000), begin + most, seed, has_flag(argc, argv, "--write"));
  const double seconds =
      std::chrono::duration<double>(processor_time(CLOCK_PROCESS_CPUTIME_ID) - begin).count();
  std::fprintf(stderr, "%llu %s in %llu inputs, %zu kinds of outcome, 0 findings (seed %llu, %.1f s)\n",
               static_cast<unsigned long long>(progress.num_units), std::string(unit_name()).c_str(),
               static_cast<unsigned long long>(progress.num_inputs), progress.outcomes.size(),
               static_cast<unsigned long long>(seed), seconds);
  return 0;
}

}  // namespace runnel::fuzz

int main(int argc, char** argv) {
  return runnel::fuzz::run(argc, argv);
}
