// Shared by the tests of the emulator: a fresh device with a stream, arrays on it, and launches that are
// waited for.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda-runner/emulator/fault.h"
#include "cuda-runner/emulator/lang.h"
#include "cuda-runner/emulator/settings.h"
#include "runner/check.h"

// A kernel with its arguments, for Emulated::launch.
#define LAUNCH(...) [&](const cudaLaunchConfig_t* config) { return cudaLaunchKernelEx(config, __VA_ARGS__); }

namespace runnel::test {

template <typename T>
struct Array {
  T* data;
  size_t count;

  Global<T> view() const { return {data, count}; }
  Global<const T> read_only() const { return {data, count}; }
};

// A new device for each test. The next one frees everything that a test leaves behind.
class Emulated {
 public:
  explicit Emulated(const emulator::Settings& settings = {}) {
    emulator::start(settings);
    RUNNEL_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }

  // The memory is not initialised.
  template <typename T>
  Array<T> allocate(size_t count) {
    Array<T> array{nullptr, count};
    RUNNEL_CHECK(cudaMalloc(&array.data, count * sizeof(T)) == cudaSuccess);
    return array;
  }
  template <typename T>
  Array<T> upload(const std::vector<T>& values) {
    const Array<T> array = allocate<T>(values.size());
    const size_t bytes = values.size() * sizeof(T);
    void* pinned = nullptr;  // freed when the next device starts
    RUNNEL_CHECK(cudaHostAlloc(&pinned, bytes, cudaHostAllocDefault) == cudaSuccess);
    std::memcpy(pinned, values.data(), bytes);
    RUNNEL_CHECK(cudaMemcpyAsync(array.data, pinned, bytes, cudaMemcpyHostToDevice, stream) == cudaSuccess);
    return array;
  }
  template <typename T>
  std::vector<T> download(const Array<T>& array) {
    std::vector<T> values(array.count);
    RUNNEL_CHECK(cudaMemcpyAsync(values.data(), array.data, values.size() * sizeof(T), cudaMemcpyDeviceToHost,
                                 stream) == cudaSuccess);
    return values;
  }

  cudaLaunchConfig_t config(dim3 blocks, dim3 threads) const {
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = stream;
    return config;
  }
  // Runs a launch to its end. Returns cudaSuccess or the error, which may mean that the device is lost.
  template <typename Launch>
  cudaError_t launch(dim3 blocks, dim3 threads, const Launch& launch) {
    const cudaLaunchConfig_t launch_config = config(blocks, threads);
    const cudaError_t error = launch(&launch_config);
    return error != cudaSuccess ? error : synchronize();
  }
  cudaError_t synchronize() { return cudaStreamSynchronize(stream); }

  cudaStream_t stream = nullptr;
};

inline bool says(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

}  // namespace runnel::test
