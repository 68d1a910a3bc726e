// Marks what kernels of a GPU may call too. Nothing else of CUDA is known here.
#pragma once

#if defined(__CUDACC__)
#define RUNNEL_HOST_DEVICE __host__ __device__
#else
#define RUNNEL_HOST_DEVICE
#endif
