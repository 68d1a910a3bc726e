// cpu-runner serve: what the gateway spawns. The order of messages is docs/protocol.md's, "The life of a
// runner".
#pragma once

#include "runner/commands/loaded_model.h"
#include "runner/result.h"

namespace runnel {

// Takes stdin and stdout for frames and serves until the gateway wants no more. Its error has been sent as
// Failure.
Result<void> serve_command(const EngineFlags& flags, const BackendFactory& factory);

}  // namespace runnel
