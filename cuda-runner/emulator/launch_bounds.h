// The first number of a kernel's __launch_bounds__, which CUDA launches no block beyond.
#pragma once

#include <cstdint>

namespace runnel::emulator {

// Threads that a block of the kernel may have; kMaxThreads without bounds.
uint32_t max_threads_of(const void* kernel);

}  // namespace runnel::emulator
