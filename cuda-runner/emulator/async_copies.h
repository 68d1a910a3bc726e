// Copies from global to shared memory that are under way. They land as late as they may: when the thread that
// asked for them waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda-runner/emulator/access_record.h"

namespace runnel::emulator {

inline constexpr size_t kCopyBytes = 16;

struct AsyncCopy {
  void* to;
  std::array<std::byte, kCopyBytes> bytes;
  std::span<AccessRecord> records;  // of what it writes
};

// All of the running thread.
void begin_copy(const AsyncCopy& copy);
void commit_copies();
// Until at most so many of the newest groups are under way.
void wait_copies(uint32_t num_pending);

// A new block: what its threads left under way is nothing to this one.
void forget_copies();

}  // namespace runnel::emulator
