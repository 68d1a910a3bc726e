// The portable kernels with the wide loops as AVX-512 has them, sixteen lanes: their bits are tested on
// processors without it too.
#define RUNNEL_KERNELS portable_wide
#define RUNNEL_KERNELS_NAME "portable, 16 lanes"
#define RUNNEL_WIDE_LANES 16
#include "cpu-runner/kernels/kernels-inl.h"
#include "test/cpu-runner/kernel_tables.h"

namespace runnel::test {
constinit const Kernels kPortableWideKernels = portable_wide::kKernels;
}  // namespace runnel::test
