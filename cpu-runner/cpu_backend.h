// The CPU's implementation of runner/backend/backend.h.
#pragma once

#include <memory>

#include "cpu-runner/thread_pool.h"
#include "runner/backend/backend.h"
#include "runner/result.h"

namespace runnel {

struct Kernels;

// Fails with kSystem when threads cannot be started.
Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options);
// On these threads, whatever the options say of threads. kernels: for tests, in place of those that the
// options name; null: those.
Result<std::unique_ptr<Backend>> make_cpu_backend_on(std::shared_ptr<ThreadPool> threads,
                                                     const BackendOptions& options,
                                                     const Kernels* kernels = nullptr);

}  // namespace runnel
