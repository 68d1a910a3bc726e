// What becomes of a CUDA error. Out of memory and a missing device are for the callers that ask for memory
// and devices; elsewhere an error means that the device is lost, and so is this process, or that a call was
// wrong.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace runnel {

// "cudaErrorIllegalAddress, an illegal memory access was encountered"
std::string describe(cudaError_t error);

// Returns if there is no error. doing: "copying logits to the host". If every call fails from now on, the
// process ends here with kDeviceLost and one sentence: nothing that was computed is to be sent. Any other
// error is a mistake of this program, and aborts.
void expect_success(cudaError_t error, const char* doing);

}  // namespace runnel
