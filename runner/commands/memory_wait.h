// A process that takes the place of a dead one waits until the driver has freed what that held.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace runnel {

inline constexpr std::chrono::milliseconds kMemoryPoll{10};
// After this time somebody else holds the memory, and the load says what is missing.
inline constexpr std::chrono::milliseconds kMaxMemoryWait{10'000};

using Sleep = std::function<void(std::chrono::milliseconds)>;

// Waits until this many bytes of a device are free. Returns whether they are.
bool await_free_bytes(uint64_t bytes, const std::function<uint64_t()>& free_bytes, const Sleep& sleep);

}  // namespace runnel
