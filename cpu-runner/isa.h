// The instruction sets that there are kernels for.
#pragma once

#include <string_view>
#include <vector>

#include "cpu-runner/kernels/kernels.h"
#include "runner/result.h"

namespace runnel {

// Those this processor can run, the best last.
std::vector<const Kernels*> usable_kernels();

// The kernels for the instruction set of this name; for the empty one, the best that the processor has. Fails
// with kUsage for one that it lacks and for one that there is none of.
Result<const Kernels*> kernels_for(std::string_view isa);

}  // namespace runnel
