// A CPU backend with either table of kernels.
#pragma once

#include <cstdlib>
#include <memory>

#include "cpu-runner/cpu_backend.h"

namespace runnel::test {

inline Result<std::unique_ptr<Backend>> cpu_backend_of(uint32_t num_threads, bool portable) {
  if (portable) setenv("RUNNEL_CPU", "portable", 1);
  auto backend = make_cpu_backend({.num_threads = num_threads});
  unsetenv("RUNNEL_CPU");
  return backend;
}

}  // namespace runnel::test
