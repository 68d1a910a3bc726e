// cuda-runner devices: lists the GPUs and says whether they can be used.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>

#include "runner/result.h"

namespace runnel {

// Prints one line of JSON, or lines for people. number: the device that runs a kernel; nothing: all do. The
// others are listed without a context, which takes time and memory. Fails with kNoDevice, after printing, if
// no device has run a kernel.
Result<void> report_devices(std::optional<uint32_t> number, bool json, std::ostream& out);

}  // namespace runnel
