// machine-peak: measures how fast all threads together read memory, and how many integer operations
// per second their dot instructions reach. Prints one JSON object. A model's speed is compared with
// these limits.
//
//     machine-peak [--threads N] [--mebibytes N] [--milliseconds N] [--passes N]

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runner/bench/samples.h"
#include "runner/system/processors.h"
#include "test/bench/machine/dot_loops.h"

namespace runnel {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  uint64_t threads = usable_cores();
  uint64_t mebibytes = 512;
  uint64_t milliseconds = 100;
  uint64_t passes = 9;
};

// Runs work(thread) on all threads at once and returns, for each pass, the seconds from the first
// thread's begin to the last thread's end. A pass that does not count comes first.
Samples seconds_of(const Flags& flags, const std::function<void(uint64_t)>& work) {
  Samples seconds;
  for (uint64_t pass = 0; pass <= flags.passes; ++pass) {
    Clock::time_point begin;
    std::barrier start(static_cast<std::ptrdiff_t>(flags.threads), [&]() noexcept { begin = Clock::now(); });
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < flags.threads; ++thread)
      threads.emplace_back([&, thread] {
        start.arrive_and_wait();
        work(thread);
      });
    threads.clear();
    if (pass > 0) seconds.add(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return seconds;
}

// Prints a rate's median, smallest and largest value. The smallest rate comes from the longest time.
void print_rates(double amount, const Samples& seconds) {
  std::cout << "{\"median\":" << amount / seconds.median() << ",\"min\":" << amount / seconds.max()
            << ",\"max\":" << amount / seconds.min() << '}';
}

// The sum is used only so that the compiler keeps the reads. The compiler vectorises the loop, as
// wide as memory needs.
#if defined(__x86_64__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
uint64_t
sum_of(const uint64_t* values, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

void print_read_bandwidth(const Flags& flags) {
  const uint64_t words_each = (flags.mebibytes << 20) / sizeof(uint64_t) / flags.threads;
  const uint64_t bytes = words_each * flags.threads * sizeof(uint64_t);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Huge pages, as for a runner's weights, if the kernel has some.
  madvise(memory, bytes, MADV_HUGEPAGE);
  const std::span<uint64_t> words(static_cast<uint64_t*>(memory), words_each * flags.threads);
  // Memory that was never written is one page of zeros, however often it is read.
  std::ranges::fill(words, 1);
  std::vector<uint64_t> sums(flags.threads);
  const Samples seconds = seconds_of(
      flags, [&](uint64_t thread) { sums[thread] = sum_of(words.data() + thread * words_each, words_each); });
  if (!std::ranges::all_of(sums, [&](uint64_t sum) { return sum == words_each; })) {
    std::cerr << "machine-peak: what was read is not what was written.\n";
    std::exit(EXIT_FAILURE);
  }
  print_rates(static_cast<double>(bytes) / 1e9, seconds);
  munmap(memory, bytes);
}

// The number of calls that take this long on one thread.
uint64_t calls_within(const DotLoop& loop, uint64_t milliseconds) {
  for (uint64_t calls = 1;; calls *= 2) {
    const Clock::time_point begin = Clock::now();
    for (uint64_t i = 0; i < calls; ++i) loop.run();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    if (ms * 2 >= static_cast<double>(milliseconds)) return calls;
  }
}

void print_dot_peak(const Flags& flags, const DotLoop& loop) {
  const uint64_t calls = calls_within(loop, flags.milliseconds);
  std::vector<uint64_t> misses(flags.threads);
  const Samples seconds = seconds_of(flags, [&](uint64_t thread) {
    for (uint64_t i = 0; i < calls; ++i) misses[thread] += loop.run() == loop.expected_sum ? 0 : 1;
  });
  for (const uint64_t count : misses) {
    if (count == 0) continue;
    std::cerr << "machine-peak: " << loop.isa << " executed other instructions than are counted.\n";
    std::exit(EXIT_FAILURE);
  }
  const auto operations = static_cast<double>(calls * flags.threads) * static_cast<double>(loop.operations);
  print_rates(operations / 1e9, seconds);
}

int run(const Flags& flags) {
  std::cout << "{\"threads\":" << flags.threads << ",\"read_gb_s\":";
  print_read_bandwidth(flags);
  std::cout << ",\"int8_gops\":{";
  std::string missing;
  const char* separator = "";
  for (const DotLoop& loop : dot_loops()) {
    if (!loop.is_there) {
      missing += (missing.empty() ? "\"" : ",\"") + std::string(loop.isa) + '"';
      continue;
    }
    std::cout << separator << '"' << loop.isa << "\":";
    print_dot_peak(flags, loop);
    separator = ",";
  }
  std::cout << "},\"missing\":[" << missing << "]}" << std::endl;
  return EXIT_SUCCESS;
}

int usage(std::string_view name, std::string_view value) {
  std::cerr
      << "machine-peak: " << name << ' ' << value
      << " is none of --threads, --mebibytes, --milliseconds and --passes with a number of 1 or more.\n";
  return 64;
}

int main_of(std::span<char*> arguments) {
  Flags flags;
  for (size_t i = 1; i < arguments.size(); i += 2) {
    const std::string_view name = arguments[i];
    const std::string_view value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    uint64_t* const flag = name == "--threads"        ? &flags.threads
                           : name == "--mebibytes"    ? &flags.mebibytes
                           : name == "--milliseconds" ? &flags.milliseconds
                           : name == "--passes"       ? &flags.passes
                                                      : nullptr;
    if (flag == nullptr) return usage(name, value);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *flag);
    if (error != std::errc() || end != value.data() + value.size() || *flag == 0) return usage(name, value);
  }
  return run(flags);
}

}  // namespace
}  // namespace runnel

int main(int argc, char** argv) {
  return runnel::main_of({argv, static_cast<size_t>(argc)});
}
