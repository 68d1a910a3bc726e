// The CPU's implementation of runner/backend/backend.h.
#pragma once

#include <memory>

#include "cpu-runner/thread_pool.h"
#include "runner/backend/backend.h"
#include "runner/result.h"

namespace runnel {

// Fails with kSystem when threads cannot be started.
Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options);
// On these threads, whatever the options say of threads.
Result<std::unique_ptr<Backend>> make_cpu_backend_on(std::shared_ptr<ThreadPool> threads,
                                                     const BackendOptions& options);

}  // namespace runnel
