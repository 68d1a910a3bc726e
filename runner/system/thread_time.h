// Processor time of the calling thread, which does not pass while other threads have its core.
#pragma once

#include <chrono>

namespace runnel {

std::chrono::nanoseconds thread_time();

}  // namespace runnel
