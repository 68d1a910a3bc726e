// Streams and events: work is done as late as CUDA allows.
#include "cuda-runner/emulator/stream.h"

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

__global__ void add_kernel(Global<uint32_t> values, uint32_t term) {
  values[threadIdx.x] += term;
}

uint32_t* pinned(size_t count) {
  uint32_t* memory = nullptr;
  CHECK(cudaHostAlloc(&memory, count * sizeof(uint32_t), cudaHostAllocDefault) == cudaSuccess);
  return memory;
}

TEST_CASE("stream: a host that reads before it has waited sees the old bytes") {
  Emulated device;
  const Array<uint32_t> values = device.upload(std::vector<uint32_t>{1});
  uint32_t* const host = pinned(1);
  *host = 77;
  const auto config = device.config(1, 1);
  CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), 1) == cudaSuccess);
  CHECK(cudaMemcpyAsync(host, values.data, 4, cudaMemcpyDeviceToHost, device.stream) == cudaSuccess);
  CHECK(*host == 77);
  CHECK(cudaStreamSynchronize(device.stream) == cudaSuccess);
  CHECK(*host == 2);
}

TEST_CASE("stream: memory of the host is read when the copy runs, and is refused if it is not pinned") {
  Emulated device;
  uint32_t* const host = pinned(1);
  *host = 1;
  const Array<uint32_t> from_pinned = device.allocate<uint32_t>(1);
  CHECK(cudaMemcpyAsync(from_pinned.data, host, 4, cudaMemcpyHostToDevice, device.stream) == cudaSuccess);
  const std::vector<uint32_t> pageable{1};
  CHECK(cudaMemcpyAsync(from_pinned.data, pageable.data(), 4, cudaMemcpyHostToDevice, device.stream) ==
        cudaErrorInvalidValue);
  *host = 2;
  CHECK(device.download(from_pinned)[0] == 2);
}

TEST_CASE("stream: streams wait for each other by events alone") {
  Emulated device;
  const Array<uint32_t> values = device.upload(std::vector<uint32_t>{1});
  CHECK(device.synchronize() == cudaSuccess);
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  // A wait for an event that was never recorded has no effect.
  CHECK(cudaStreamWaitEvent(other, event) == cudaSuccess);
  const auto config = device.config(1, 1);
  CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), 1) == cudaSuccess);
  CHECK(cudaEventRecord(event, device.stream) == cudaSuccess);
  uint32_t* const host = pinned(1);
  SUBCASE("with one") {
    CHECK(cudaStreamWaitEvent(other, event) == cudaSuccess);
    // Work that is given to the first stream later is not waited for.
    CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), 1) == cudaSuccess);
    CHECK(cudaMemcpyAsync(host, values.data, 4, cudaMemcpyDeviceToHost, other) == cudaSuccess);
    CHECK(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(*host == 2);
  }
  SUBCASE("without one") {
    CHECK(cudaMemcpyAsync(host, values.data, 4, cudaMemcpyDeviceToHost, other) == cudaSuccess);
    CHECK(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(*host == 1);
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(device.download(values)[0] >= 2);
}

TEST_CASE("stream: repeated queries see work complete") {
  Emulated device;
  const Array<uint32_t> values = device.upload(std::vector<uint32_t>{1});
  CHECK(device.synchronize() == cudaSuccess);
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDefault) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  const auto config = device.config(1, 1);
  CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), 1) == cudaSuccess);
  CHECK(cudaEventRecord(event, device.stream) == cudaSuccess);
  CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), 1) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaStreamQuery(device.stream) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(device.download(values)[0] == 3);
}

TEST_CASE("stream: two completed events give the time between them") {
  Emulated device;
  cudaEvent_t events[2];
  for (cudaEvent_t& event : events) {
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDefault) == cudaSuccess);
    CHECK(cudaEventRecord(event, device.stream) == cudaSuccess);
  }
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, events[0], events[1]) == cudaErrorNotReady);
  CHECK(cudaEventSynchronize(events[1]) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, events[0], events[1]) == cudaSuccess);
  CHECK(milliseconds >= 0);
}

TEST_CASE("stream: no more than so much work waits") {
  Emulated device;
  const Array<uint32_t> values = device.upload(std::vector<uint32_t>{0});
  const auto config = device.config(1, 1);
  for (size_t i = 0; i < emulator::kMaxQueued; ++i)
    CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), 1) == cudaSuccess);
  // The queue was full, so the oldest operation, the upload, has run.
  CHECK(*values.data == 0);
  CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), 1) == cudaSuccess);
  CHECK(*values.data == 1);
}

TEST_CASE("stream: a destroyed stream and the default stream are refused") {
  Emulated device;
  cudaStream_t gone = nullptr;
  CHECK(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(cudaStreamDestroy(gone) == cudaSuccess);
  CHECK(cudaStreamSynchronize(gone) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
}  // namespace runnel
