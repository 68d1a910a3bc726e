// Waiting for a moment before asking the kernel to wait.
#pragma once

#include <chrono>

namespace runnel {

// Whether done() becomes true within a bounded time. The gaps between the loops of one step are a few
// microseconds, those between steps some tens of microseconds. Spinning covers both, and a core that the
// gateway needs is held no longer than this.
template <typename Done>
bool spin_until(const Done& done) {
  constexpr std::chrono::microseconds kSpin{30};
  constexpr int kPausesPerClockRead = 32;
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace runnel
