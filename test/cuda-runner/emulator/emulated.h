// What tests of the emulator share: a fresh device, memory on it, and a stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda-runner/emulator/fault.h"
#include "cuda-runner/emulator/lang.h"
#include "cuda-runner/emulator/settings.h"
#include "runner/check.h"

namespace runnel::test {

// A device of the test's own, with one stream. What a test leaves on it is gone with the next.
class Emulated {
 public:
  explicit Emulated(const emulator::Settings& settings = {}) {
    emulator::start(settings);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }

  // Memory nobody has written to.
  template <typename T>
  Global<T> allocate(size_t count) {
    T* memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)) == cudaSuccess);
    pointers.push_back(memory);
    return Global<T>(memory, count);
  }
  template <typename T>
  Global<T> upload(const std::vector<T>& values) {
    Global<T> view = allocate<T>(values.size());
    CHECK(cudaMemcpyAsync(pointers.back(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                          stream) == cudaSuccess);
    return view;
  }
  // What the allocation holds once all work is done; CHECKs that there is no fault.
  template <typename T>
  std::vector<T> download(size_t allocation, size_t count) {
    std::vector<T> values(count);
    CHECK(cudaMemcpyAsync(values.data(), pointers[allocation], count * sizeof(T), cudaMemcpyDeviceToHost,
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

  // Of all that was launched: success, or the error the device is lost by.
  cudaError_t synchronize() { return cudaStreamSynchronize(stream); }

  cudaStream_t stream = nullptr;
  std::vector<void*> pointers;  // of the allocations, in order
};

inline bool says(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

}  // namespace runnel::test
