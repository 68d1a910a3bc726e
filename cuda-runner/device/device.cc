#include "cuda-runner/device/device.h"

#include <cuda_runtime.h>

#include <array>
#include <optional>

#include "cuda-runner/device/error.h"
#include "cuda-runner/device/probe.h"
#include "runner/system/start_times.h"

namespace runnel {
namespace {

Error no_device(const std::string& sentence) {
  return {ExitCode::kNoDevice, sentence};
}

Error no_count(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    const std::string there = driver == 0 ? "There is no NVIDIA driver"
                                          : "The NVIDIA driver is for CUDA " + cuda_version_name(driver);
    return no_device(there + "; this program needs one for CUDA " + cuda_version_name(CUDART_VERSION) +
                     ". Install or update the driver, and check that nvidia-smi shows the GPU.");
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess)
    return no_device("No CUDA device was found. Check that nvidia-smi shows the GPU.");
  return no_device("The CUDA driver does not answer: " + describe(error) +
                   ". Check that nvidia-smi shows the GPU.");
}

// Runs the probe kernel and checks its output. The CUDA functions are called directly, because a failure here
// is a result and must not end the process. Returns the error, if there is one.
std::optional<cudaError_t> probe() {
  constexpr size_t kBytes = kProbeThreads * sizeof(uint32_t);
  uint32_t* memory = nullptr;
  cudaStream_t stream = nullptr;
  std::array<uint32_t, kProbeThreads> values{};
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaMalloc(&memory, kBytes);
  if (error == cudaSuccess) error = launch_probe(Global<uint32_t>(memory, kProbeThreads), stream);
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(values.data(), memory, kBytes, cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  cudaFree(memory);
  if (stream != nullptr) cudaStreamDestroy(stream);
  if (error != cudaSuccess) return error;
  for (uint32_t thread = 0; thread < kProbeThreads; ++thread)
    if (values[thread] != probe_value(thread)) return cudaErrorLaunchFailure;
  return std::nullopt;
}

}  // namespace

std::string cuda_version_name(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<Device> Device::open(int number, StartTimes* times) {
  const auto end_part = [times](const char* part) {
    if (times != nullptr) times->end(part);
  };
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0)
    return no_count(error);
  end_part("driver");
  if (number < 0 || number >= count)
    return no_device("GPU " + std::to_string(number) + " does not exist; the last GPU is GPU " +
                     std::to_string(count - 1) + ".");
  const std::string name = "GPU " + std::to_string(number);
  cudaDeviceProp properties;
  cudaError_t error = cudaSetDevice(number);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, number);
  if (error != cudaSuccess) return no_device(name + " does not answer: " + describe(error) + ".");

  end_part("context");

  Device device;
  device.number_ = number;
  device.name_ = properties.name;
  device.compute_capability_ = 10 * properties.major + properties.minor;
  device.total_bytes_ = properties.totalGlobalMem;
  const std::string full_name = name + " (" + device.name_ + ", compute capability " +
                                std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                                ")";
  if (properties.major < kMinMajor)
    return no_device(full_name + " is not supported: compute capability " + std::to_string(kMinMajor) +
                     ".0 or newer is required.");
  if (const auto failed = probe()) {
    if (*failed == cudaErrorNoKernelImageForDevice)
      return no_device("This program has no code for " + full_name +
                       ". Build it for this GPU: make cuda-runner CUDA_ARCHITECTURES=" +
                       std::to_string(device.compute_capability_) + ".");
    return no_device("A test kernel failed on " + full_name + ": " + describe(*failed) + ".");
  }
  end_part("test kernel");
  return device;
}

void Device::make_current() const {
  expect_success(cudaSetDevice(number_), "changing the device");
}

bool Device::reach(const Device& other) const {
  int can = 0;
  expect_success(cudaDeviceCanAccessPeer(&can, number_, other.number_), "asking about another device");
  if (can == 0) return false;
  make_current();
  const cudaError_t error = cudaDeviceEnablePeerAccess(other.number_, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // clears it
  } else {
    expect_success(error, "reaching another device");
  }
  return true;
}

uint64_t Device::free_bytes() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  expect_success(cudaMemGetInfo(&free_bytes, &total_bytes), "asking how much memory is free");
  return free_bytes;
}

}  // namespace runnel
