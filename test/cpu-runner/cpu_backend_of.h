// A CPU backend with either table of kernels.
#pragma once

#include <cstdlib>
#include <memory>

#include "cpu-runner/cpu_backend.h"

namespace runnel::test {

inline Result<std::unique_ptr<Backend>> cpu_backend_of(const BackendOptions& options, bool portable) {
  if (portable) setenv("RUNNEL_CPU", "portable", 1);
  auto backend = make_cpu_backend(options);
  unsetenv("RUNNEL_CPU");
  return backend;
}

}  // namespace runnel::test
