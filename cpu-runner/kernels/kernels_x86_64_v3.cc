// The kernels for processors with AVX2, FMA and F16C: all since Haswell and Zen. CMakeLists.txt gives files
// of this name -march=x86-64-v3.
#if defined(__x86_64__)
#define RUNNEL_KERNELS x86_64_v3
#define RUNNEL_KERNELS_NAME "x86-64-v3"
#include "cpu-runner/kernels/kernels-inl.h"

namespace runnel {
constinit const Kernels kX8664V3Kernels = x86_64_v3::kKernels;
}  // namespace runnel
#endif
