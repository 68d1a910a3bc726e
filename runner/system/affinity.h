// The processors that the system lets a thread run on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/result.h"

namespace runnel {

// Larger than the number of any processor.
inline constexpr uint32_t kMaxProcessors = 1u << 16;

// The numbers of the processors on which the calling thread may run, ascending: its affinity, within its
// cpuset. Empty if the system does not tell.
std::vector<uint32_t> allowed_processors();

// Binds the calling thread to these processors, and with it the threads that it starts from then on. Fails
// with kSystem; the message is the system's.
Result<void> bind_thread(std::span<const uint32_t> processors);

}  // namespace runnel
