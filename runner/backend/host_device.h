// Marks functions that kernels of a GPU may call too. This is all that the host code knows of CUDA.
#pragma once

#if defined(__CUDACC__)
#define RUNNEL_HOST_DEVICE __host__ __device__
#else
#define RUNNEL_HOST_DEVICE
#endif
