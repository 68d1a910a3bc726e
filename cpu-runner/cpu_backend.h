// The CPU's implementation of runner/backend/backend.h.
#pragma once

#include <memory>

#include "runner/backend/backend.h"
#include "runner/result.h"

namespace runnel {

// Fails with kSystem when threads cannot be started.
Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options);

}  // namespace runnel
