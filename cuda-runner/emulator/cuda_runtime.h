// <cuda_runtime.h> of the emulator: g++ finds it before the toolkit's.
#pragma once

#include <cmath>

#include "cuda-runner/emulator/block.h"
#include "cuda-runner/emulator/launch.h"
#include "cuda-runner/emulator/runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
// See launch_bounds.h. GCC 12 wants a sum here, it fails at the name of a constant alone.
#define __launch_bounds__(threads, ...) \
  __attribute__((patchable_function_entry((threads) + 0, (threads) + 0)))
#define __forceinline__ inline __attribute__((always_inline))

// A macro so that sentences can name the kernel.
#define cudaLaunchKernelEx(...) ::runnel::emulator::launch(#__VA_ARGS__, __VA_ARGS__)
