// cpu-runner inspect: what a model file holds, as the runner understands it.
#pragma once

#include <ostream>
#include <string>

#include "runner/result.h"

namespace runnel {

// Prints hyper-parameters, tensors by type and the file's identity. Fails as opening and reading the file do.
Result<void> inspect(const std::string& model, const std::string& architecture, bool json, std::ostream& out);

}  // namespace runnel
