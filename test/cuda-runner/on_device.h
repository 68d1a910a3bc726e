// Arrays on a device for tests of kernels. The device is the emulated one, or a real one if the tests are
// built for it.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cuda-runner/kernels/lang.h"
#include "runner/check.h"

namespace runnel::test {

inline void require_success(cudaError_t status) {
  if (status != cudaSuccess) std::fprintf(stderr, "CUDA says: %s\n", cudaGetErrorString(status));
  RUNNEL_CHECK(status == cudaSuccess);
}

// The stream of a test. It must outlive the arrays.
class TestStream {
 public:
  TestStream() { require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  operator cudaStream_t() const { return stream_; }
  void synchronize() const { require_success(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

template <typename T>
class DeviceArray {
 public:
  // The memory is not initialised.
  DeviceArray(const TestStream& stream, size_t count) : stream_(stream), count_(count) {
    void* memory = nullptr;
    require_success(cudaMalloc(&memory, std::max<size_t>(count, 1) * sizeof(T)));
    data_ = static_cast<T*>(memory);
  }
  DeviceArray(const TestStream& stream, const std::vector<T>& values) : DeviceArray(stream, values.size()) {
    set(values);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Global<T> view() const { return Global<T>(data_, count_); }
  Global<const T> read_view() const { return Global<const T>(data_, count_); }

  void set(const std::vector<T>& values) const {
    RUNNEL_CHECK(values.size() == count_);
    const size_t bytes = count_ * sizeof(T);
    void* pinned = nullptr;
    require_success(cudaHostAlloc(&pinned, std::max<size_t>(bytes, 1), cudaHostAllocDefault));
    if (bytes > 0) std::memcpy(pinned, values.data(), bytes);
    require_success(cudaMemcpyAsync(data_, pinned, bytes, cudaMemcpyHostToDevice, stream_));
    stream_.synchronize();
    require_success(cudaFreeHost(pinned));
  }
  // The elements after all work of the device is done.
  std::vector<T> values() const {
    std::vector<T> values(count_);
    require_success(cudaDeviceSynchronize());
    require_success(
        cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream_));
    stream_.synchronize();
    return values;
  }

 private:
  const TestStream& stream_;
  T* data_ = nullptr;
  size_t count_;
};

}  // namespace runnel::test
