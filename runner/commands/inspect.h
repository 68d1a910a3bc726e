// cpu-runner inspect: what a model file holds, as the runner understands it.
#pragma once

#include <ostream>

#include "runner/commands/loaded_model.h"
#include "runner/result.h"

namespace runnel {

// Prints hyper-parameters, tensors by type, the file's identity, and what serving it so would take of the
// memory, or why it cannot be served here. Fails as opening and reading the file do.
Result<void> inspect(const EngineFlags& flags, const BackendFactory& factory, bool json, std::ostream& out);

}  // namespace runnel
