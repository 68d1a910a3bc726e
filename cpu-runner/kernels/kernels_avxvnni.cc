// The kernels for processors that also add up products of bytes, in vectors of AVX2: Alder Lake and its like.
#if defined(__x86_64__)
#define RUNNEL_KERNELS avxvnni
#define RUNNEL_KERNELS_NAME "avxvnni"
#define RUNNEL_LANES 8
#include "cpu-runner/kernels/kernels-inl.h"

namespace runnel {
constinit const Kernels kAvxVnniKernels = avxvnni::kKernels;
}  // namespace runnel
#endif
