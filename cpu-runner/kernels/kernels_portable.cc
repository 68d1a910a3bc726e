// The kernels for any processor, in vectors of four lanes, which x86-64 and ARM64 always have. Where the
// hardware has no fused multiply-add, the compiler calls the C library's, which is exact and slow. There,
// this table is for correctness and not for speed.
#define RUNNEL_KERNELS portable
#define RUNNEL_KERNELS_NAME "portable"
#define RUNNEL_LANES 4
#include "cpu-runner/kernels/kernels-inl.h"

namespace runnel {
constinit const Kernels kPortableKernels = portable::kKernels;
}  // namespace runnel
