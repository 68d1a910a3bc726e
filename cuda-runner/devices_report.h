// cuda-runner devices: what GPUs there are, and whether they can be used.
#pragma once

#include <ostream>

#include "runner/result.h"

namespace runnel {

// One line of JSON, or lines for people. Fails with kNoDevice, when all is told, if no device has run a
// kernel.
Result<void> report_devices(bool json, std::ostream& out);

}  // namespace runnel
