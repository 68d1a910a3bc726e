// cpu-runner memory: makes the memory in which KV caches outlive their runners. The gateway, which cannot
// make such memory itself, starts this before the first runner and opens the descriptors in /proc.
#pragma once

#include <cstdint>
#include <ostream>

#include "runner/result.h"

namespace runnel {

// One for each runner of a model.
constexpr uint32_t kMaxKvMemories = 64;

struct KvMemoryFlags {
  uint32_t count = 1;
};

// Prints a line for each memory: its descriptor in this process. Then waits until the input ends. A memory
// has as many bytes as the machine; what nobody writes to takes none. Fails with kSystem.
Result<void> hold_kv_memory(const KvMemoryFlags& flags, int input, std::ostream& out);

}  // namespace runnel
