// How long this machine takes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu-runner/thread_pool.h"
#include "runner/result.h"

namespace runnel {

// Seconds of work(), so many times after once that does not count.
std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times);

// The same of a copy of so many bytes by all threads.
Result<std::vector<double>> seconds_of_copy(ThreadPool& threads, uint64_t bytes, uint32_t num_times);

}  // namespace runnel
