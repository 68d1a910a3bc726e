// cpu-runner memory: makes the memory in which a KV cache outlives its runners. The gateway, which cannot
// make such memory itself, starts this before the first runner and opens the descriptor in /proc.
#pragma once

#include <ostream>

#include "runner/result.h"

namespace runnel {

// Prints its descriptor in this process, then waits until the input ends. The memory has as many bytes as the
// machine; what nobody writes to takes none. Fails with kSystem.
Result<void> hold_kv_memory(int input, std::ostream& out);

}  // namespace runnel
