// The kernels for ARM processors that add up products of bytes (dotprod): servers since Neoverse N1, Apple
// M1.
#if defined(__aarch64__)
#define RUNNEL_KERNELS dotprod
#define RUNNEL_KERNELS_NAME "dotprod"
#define RUNNEL_LANES 4
#include "cpu-runner/kernels/kernels-inl.h"

namespace runnel {
constinit const Kernels kDotprodKernels = dotprod::kKernels;
}  // namespace runnel
#endif
