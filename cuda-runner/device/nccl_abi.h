// The part of NCCL's interface that is used, with NCCL's names and numbers. They are those of nccl.h of every
// version from 2.9 on.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

extern "C" {

struct ncclComm;
using ncclComm_t = ncclComm*;

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
};

enum ncclDataType_t {
  ncclInt8 = 0,
  ncclFloat32 = 7,
  ncclBfloat16 = 9,
};

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
// One communicator for each of the devices, whose place in the list is its rank.
ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int num_devices, const int* devices);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
// Gives each rank `count` values of each, in the order of ranks. What a rank gives may lie where it gets it.
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream);

}  // extern "C"
