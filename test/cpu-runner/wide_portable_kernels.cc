#define RUNNEL_KERNELS wide_portable
#define RUNNEL_KERNELS_NAME "portable, 16 lanes"
#define RUNNEL_LANES 16
#include "cpu-runner/kernels/kernels-inl.h"

namespace runnel {
extern const Kernels kWidePortableKernels;
constinit const Kernels kWidePortableKernels = wide_portable::kKernels;
}  // namespace runnel
