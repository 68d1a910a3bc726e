// The handling of CUDA errors. Callers that allocate memory or open a device handle the errors "out of
// memory" and "no device" themselves. Any other error means that the device is lost to this process, or that
// a call was wrong.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace runnel {

// "cudaErrorIllegalAddress, an illegal memory access was encountered"
std::string describe(cudaError_t error);

// Returns if there is no error. doing: names the call in the message, as "copying logits to the host" does.
// If the device is lost, prints a sentence and exits with kDeviceLost at once, so that nothing computed is
// sent. Any other error is a mistake of this program: prints a sentence and aborts.
void expect_success(cudaError_t error, const char* doing);
// The same for a call of another library that has failed.
[[noreturn]] void fail_call(const std::string& description, const char* doing);

}  // namespace runnel
