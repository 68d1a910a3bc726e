// <cuda_runtime.h> of the emulator; its folder comes before all others on the include path.
#pragma once

#include <cmath>

#include "cuda-runner/emulator/block.h"
#include "cuda-runner/emulator/launch.h"
#include "cuda-runner/emulator/runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
// See launch_bounds.cc. The sum is needed because GCC 12 fails if the argument is the name of a constant
// alone.
#define __launch_bounds__(threads, ...) \
  __attribute__((patchable_function_entry((threads) + 0, (threads) + 0)))
// nvcc's list of the architectures that it compiles for.
#define __CUDA_ARCH_LIST__ 900
#define __forceinline__ inline __attribute__((always_inline))

// A macro, so that messages can name the kernel.
#define cudaLaunchKernelEx(...) ::runnel::emulator::launch(#__VA_ARGS__, __VA_ARGS__)
