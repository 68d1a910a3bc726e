// Several devices: each has its memory and its streams, and what one does on another's is refused.
#include <string>

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

__global__ void add_kernel(Global<uint32_t> values, uint32_t term) {
  values[threadIdx.x] += term;
}

// Two devices, the first of which is current, with a stream and an event of each.
struct Two {
  Two() {
    load();
    events[0] = event();
    CHECK(cudaSetDevice(1) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
    load();
    events[1] = event();
    CHECK(cudaSetDevice(0) == cudaSuccess);
  }

  void add(uint32_t device, const Array<uint32_t>& values, uint32_t term) {
    CHECK(cudaSetDevice(static_cast<int>(device)) == cudaSuccess);
    cudaLaunchConfig_t config = first.config(1, static_cast<uint32_t>(values.count));
    config.stream = stream(device);
    CHECK(cudaLaunchKernelEx(&config, add_kernel, values.view(), term) == cudaSuccess);
    CHECK(cudaSetDevice(0) == cudaSuccess);
  }
  // The first row of two numbers of `from` becomes the second column of `to`.
  void copy_column(const Array<uint32_t>& to, const Array<uint32_t>& from, uint32_t device) {
    CHECK(cudaMemcpy2DAsync(to.data + 1, 8, from.data, 4, 4, 2, cudaMemcpyDefault, stream(device)) ==
          cudaSuccess);
  }
  // Makes the stream of one device wait for that of the other.
  void wait(uint32_t device, uint32_t for_device) {
    CHECK(cudaEventRecord(events[for_device], stream(for_device)) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(stream(device), events[for_device]) == cudaSuccess);
  }
  // Zeros in the memory of the second device.
  Array<uint32_t> zeros_of_other(size_t count) {
    CHECK(cudaSetDevice(1) == cudaSuccess);
    const Array<uint32_t> zeros = first.allocate<uint32_t>(count);
    CHECK(cudaMemsetAsync(zeros.data, 0, count * 4, other) == cudaSuccess);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    return zeros;
  }
  cudaStream_t stream(uint32_t device) const { return device == 0 ? first.stream : other; }

  Emulated first{{.num_devices = 2}};
  cudaStream_t other = nullptr;
  cudaEvent_t events[2];

 private:
  static void load() {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, add_kernel) == cudaSuccess);
  }
  static cudaEvent_t event() {
    cudaEvent_t made = nullptr;
    CHECK(cudaEventCreateWithFlags(&made, cudaEventDisableTiming) == cudaSuccess);
    return made;
  }
};

TEST_CASE("several devices: each has its own memory") {
  Emulated emulated({.num_devices = 2, .memory_bytes = 1 << 20});
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 1 << 20) == cudaSuccess);
  CHECK(cudaMalloc(&memory, 1) == cudaErrorMemoryAllocation);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  void* of_second = nullptr;
  CHECK(cudaMalloc(&of_second, 1 << 20) == cudaSuccess);
  size_t free_bytes = 1;
  size_t total_bytes = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
  CHECK(free_bytes == 0);
  // Memory is freed on the device that has it.
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaFree(of_second) == cudaSuccess);
  CHECK(cudaMalloc(&memory, 1) == cudaErrorMemoryAllocation);
}

TEST_CASE("several devices: a kernel that uses another device's memory is a fault") {
  Two two;
  const Array<uint32_t> zeros = two.zeros_of_other(4);
  CHECK(cudaStreamSynchronize(two.other) == cudaSuccess);
  two.add(0, zeros, 1);
  CHECK(two.first.synchronize() == cudaErrorIllegalAddress);
  CHECK(says(emulator::last_fault(), "in the memory of device 1"));
}

TEST_CASE("several devices: work for a stream of a device that is not current is refused") {
  Two two;
  const Array<uint32_t> zeros = two.zeros_of_other(1);
  cudaLaunchConfig_t config = two.first.config(1, 1);
  config.stream = two.other;
  CHECK(cudaLaunchKernelEx(&config, add_kernel, zeros.view(), 1) == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemsetAsync(zeros.data, 0, 4, two.other) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(two.events[0], two.other) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(two.other) == cudaSuccess);
  CHECK(two.first.download(zeros) == std::vector<uint32_t>{0});  // copies may be
}

TEST_CASE("several devices: what one copies from another without a wait may come too early") {
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    Two two;
    const Array<uint32_t> from = two.zeros_of_other(2);
    const Array<uint32_t> to = two.first.upload(std::vector<uint32_t>{5, 6, 7, 8});
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    two.add(1, from, 3);
    if (waits) two.wait(0, 1);
    two.copy_column(to, from, 0);
    const uint32_t copied = waits ? 3 : 0;
    CHECK(two.first.download(to) == std::vector<uint32_t>{5, copied, 7, copied});
  }
}

TEST_CASE("several devices: peers are made known once") {
  Two two;
  int can = 0;
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
  CHECK(can == 1);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidValue);
  CHECK(cudaDeviceEnablePeerAccess(2, 0) == cudaErrorInvalidDevice);
}

TEST_CASE("several devices: a graph has the work of both, in the order of its events") {
  Two two;
  const Array<uint32_t> from = two.zeros_of_other(2);
  const Array<uint32_t> to = two.first.upload(std::vector<uint32_t>{5, 6, 7, 8});
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaStreamBeginCapture(two.first.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  two.wait(1, 0);
  two.add(1, from, 3);
  cudaGraph_t graph = nullptr;
  SUBCASE("which ends when both have ended") {
    two.wait(0, 1);
    two.copy_column(to, from, 0);
    CHECK(cudaStreamEndCapture(two.first.stream, &graph) == cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
    for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(executable, two.first.stream) == cudaSuccess);
    CHECK(two.first.download(to) == std::vector<uint32_t>{5, 6, 7, 6});
  }
  SUBCASE("unless the second was not waited for") {
    CHECK(cudaStreamEndCapture(two.first.stream, &graph) == cudaErrorStreamCaptureUnjoined);
  }
  SUBCASE("and the host cannot wait for an event of it") {
    CHECK(cudaEventSynchronize(two.events[0]) == cudaErrorCapturedEvent);
    CHECK(cudaStreamEndCapture(two.first.stream, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  // Both streams work as before the capture.
  CHECK(cudaStreamSynchronize(two.other) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(two.first.stream, two.events[0]) == cudaErrorCapturedEvent);
}

TEST_CASE("several devices: a capture does not wait for work from before it") {
  Two two;
  CHECK(cudaEventRecord(two.events[1], two.other) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(two.first.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(two.first.stream, two.events[1]) == cudaErrorStreamCaptureIsolation);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(two.first.stream, &graph) == cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace runnel
