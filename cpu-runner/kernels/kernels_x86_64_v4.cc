// The kernels for processors with AVX-512. CMakeLists.txt gives files of this name -march=x86-64-v4.
#if defined(__x86_64__)
#define RUNNEL_KERNELS x86_64_v4
#define RUNNEL_KERNELS_NAME "x86-64-v4"
#include "cpu-runner/kernels/kernels-inl.h"

namespace runnel {
constinit const Kernels kX8664V4Kernels = x86_64_v4::kKernels;
}  // namespace runnel
#endif
