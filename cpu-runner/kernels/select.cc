#include <cstdlib>
#include <string_view>

#include "cpu-runner/kernels/kernels.h"

namespace runnel {

const Kernels& select_kernels() {
  const char* wanted = std::getenv("RUNNEL_CPU");
  if (wanted != nullptr && std::string_view(wanted) == "portable") return kPortableKernels;
#if defined(__x86_64__)
  // True only if the operating system saves the wide registers too.
  if (__builtin_cpu_supports("x86-64-v3")) return kX8664V3Kernels;
#endif
  return kPortableKernels;
}

}  // namespace runnel
