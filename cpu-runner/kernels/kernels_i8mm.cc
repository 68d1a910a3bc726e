// The kernels for ARM processors that also multiply matrices of bytes (i8mm): servers since Neoverse V1 and
// N2, Apple M2.
#if defined(__aarch64__)
#define RUNNEL_KERNELS i8mm
#define RUNNEL_KERNELS_NAME "i8mm"
#define RUNNEL_LANES 4
#include "cpu-runner/kernels/kernels-inl.h"

namespace runnel {
constinit const Kernels kI8mmKernels = i8mm::kKernels;
}  // namespace runnel
#endif
