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
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))

// A macro so that sentences can name the kernel.
#define cudaLaunchKernelEx(...) ::runnel::emulator::launch(#__VA_ARGS__, __VA_ARGS__)
