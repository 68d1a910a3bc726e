#include "test/cpu-runner/faulty/fault.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

namespace runnel::faulty {
namespace {

template <typename Value, size_t kSize>
std::optional<Value> value_of(const std::array<std::pair<std::string_view, Value>, kSize>& names,
                              std::string_view text) {
  for (const auto& [name, value] : names)
    if (name == text) return value;
  return std::nullopt;
}

// Signal 0 stands for a fault that only slows the runner down.
constexpr int kPace = 0;
constexpr std::array<std::pair<std::string_view, int>, 5> kSignals = {
    {{"kill", SIGKILL}, {"abort", SIGABRT}, {"stop", SIGSTOP}, {"breach", SIGSYS}, {"pace", kPace}}};
constexpr std::array<std::pair<std::string_view, Moment>, 3> kMoments = {
    {{"load", Moment::kLoad}, {"step", Moment::kStep}, {"token", Moment::kToken}}};

}  // namespace

std::optional<Fault> Fault::parse(std::string_view text) {
  const size_t at = text.find('@');
  const size_t colon = text.find(':');
  if (at == text.npos || colon == text.npos || colon < at) return std::nullopt;
  const std::optional<int> signal = value_of(kSignals, text.substr(0, at));
  const std::optional<Moment> moment = value_of(kMoments, text.substr(at + 1, colon - at - 1));
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [number_end, error] = std::from_chars(text.data() + colon + 1, end, number);
  if (!signal || !moment || error != std::errc() || number_end != end) return std::nullopt;
  if (*signal == kPace && *moment != Moment::kStep) return std::nullopt;
  return Fault(*signal, *moment, number);
}

void Fault::at(Moment moment, uint64_t number, uint32_t position) const {
  if (moment != moment_) return;
  if (signal_ == kPace) return std::this_thread::sleep_for(std::chrono::milliseconds(number_));
  if (number != number_) return;
  // Tests check the position by this line.
  std::fprintf(stderr, "planned death at position %u\n", position);
  if (signal_ == SIGSYS) {
    // The sandbox must end the runner for this call.
    syscall(SYS_ptrace, PTRACE_TRACEME, 0, nullptr, nullptr);
    return;
  }
  // raise() and not kill(), because the sandbox lets a runner signal only itself.
  std::raise(signal_);
}

}  // namespace runnel::faulty
