#include "cuda-runner/device/error.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runner/exit_code.h"

namespace runnel {
namespace {

// Clears the error of the last call and makes a harmless call. On a lost device that call fails too.
bool is_device_lost() {
  cudaGetLastError();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  return cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess;
}

}  // namespace

std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error);
}

void expect_success(cudaError_t error, const char* doing) {
  if (error != cudaSuccess) [[unlikely]]
    fail_call(describe(error), doing);
}

void fail_call(const std::string& description, const char* doing) {
  if (is_device_lost()) {
    std::fprintf(
        stderr,
        "The GPU no longer answers this process. This was noticed while %s: %s. Start the runner again.\n",
        doing, description.c_str());
    // Exits without destructors: they would call the device again and delay the end, for which the gateway
    // waits.
    _exit(static_cast<int>(ExitCode::kDeviceLost));
  }
  std::fprintf(stderr, "A CUDA call failed while %s: %s. This is an error in Runnel.\n", doing,
               description.c_str());
  std::abort();
}

}  // namespace runnel
