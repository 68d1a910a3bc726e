// The GPU's implementation of runner/backend/backend.h.
#pragma once

#include <memory>

#include "runner/backend/backend.h"
#include "runner/result.h"

namespace runnel {

// Fails with kNoDevice if no kernel can be run, and with kSystem.
Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options);

}  // namespace runnel
