// The CPU's implementation of runner/backend.h.
#pragma once

#include <cstdint>
#include <memory>

#include "runner/backend.h"
#include "runner/result.h"

namespace runnel {

struct CpuOptions {
  uint32_t num_threads = 0;  // 0: as many as this process may run on
};

// Fails with kSystem when threads cannot be started.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);

}  // namespace runnel
