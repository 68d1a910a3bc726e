// How long the device takes, as its own events say.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda-runner/device/stream.h"
#include "runner/result.h"

namespace runnel {

// Seconds of what work() gives to the stream, launched as one graph so many times after once that does not
// count: a launch by itself would take longer than small kernels do.
std::vector<double> seconds_of(const Stream& stream, const std::function<void()>& work, uint32_t num_times);

// The same of a copy of so many bytes from one place on the device to another.
Result<std::vector<double>> seconds_of_copy(const Stream& stream, uint64_t bytes, uint32_t num_times);

}  // namespace runnel
