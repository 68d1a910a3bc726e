// Graphs: work that is captured once and launched often.
#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

__global__ void multiply_add_kernel(Global<const uint32_t> factors, Global<uint32_t> values, uint32_t term) {
  values[threadIdx.x] = values[threadIdx.x] * factors[threadIdx.x] + term;
}

struct Work {
  explicit Work(Emulated& emulated)
      : device(emulated),
        factors(device.upload(std::vector<uint32_t>{1, 2, 3, 4})),
        values(device.upload(std::vector<uint32_t>{5, 6, 7, 8})) {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, multiply_add_kernel) == cudaSuccess);
    CHECK(device.synchronize() == cudaSuccess);
  }

  void give(uint32_t term) {
    const auto config = device.config(1, 4);
    CHECK(cudaLaunchKernelEx(&config, multiply_add_kernel, factors.read_only(), values.view(), term) ==
          cudaSuccess);
    CHECK(cudaMemcpyAsync(factors.data, values.data, 4, cudaMemcpyDeviceToDevice, device.stream) ==
          cudaSuccess);
    CHECK(cudaLaunchKernelEx(&config, multiply_add_kernel, factors.read_only(), values.view(), 1) ==
          cudaSuccess);
  }

  Emulated& device;
  Array<uint32_t> factors;
  Array<uint32_t> values;
};

TEST_CASE("graph: a captured graph run three times equals its work submitted three times") {
  std::vector<uint32_t> eager;
  {
    Emulated device;
    Work work(device);
    for (int i = 0; i < 3; ++i) work.give(9);
    eager = device.download(work.values);
  }
  Emulated device;
  Work work(device);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  uint32_t term = 9;
  work.give(term);
  CHECK(cudaStreamEndCapture(device.stream, &graph) == cudaSuccess);
  term = 10;  // arguments are those of the capture
  CHECK(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  // Nothing has run yet.
  CHECK(device.download(work.values) == std::vector<uint32_t>{5, 6, 7, 8});
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(executable, device.stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(device.download(work.values) == eager);
}

TEST_CASE("graph: pinned memory is read each time, and must still be there") {
  Emulated device;
  const Array<uint32_t> values = device.allocate<uint32_t>(1);
  uint32_t* host = nullptr;
  CHECK(cudaHostAlloc(&host, 4, cudaHostAllocDefault) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaMemcpyAsync(values.data, host, 4, cudaMemcpyHostToDevice, device.stream) == cudaSuccess);
  CHECK(cudaStreamEndCapture(device.stream, &graph) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
  for (const uint32_t value : {3u, 4u}) {
    *host = value;
    CHECK(cudaGraphLaunch(executable, device.stream) == cudaSuccess);
    CHECK(device.download(values)[0] == value);
  }
  SUBCASE("the host's was freed") {
    CHECK(cudaFreeHost(host) == cudaSuccess);
  }
  SUBCASE("the device's was freed") {
    CHECK(cudaFree(values.data) == cudaSuccess);
  }
  CHECK(cudaGraphLaunch(executable, device.stream) == cudaSuccess);
  CHECK(device.synchronize() == cudaErrorIllegalAddress);
  CHECK(says(emulator::last_fault(), "uses memory that was freed"));
}

TEST_CASE("graph: a call that cannot be captured is refused and ends the capture") {
  Emulated device;
  Work work(device);
  CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  work.give(1);
  cudaError_t error = cudaSuccess;
  std::vector<uint32_t> pageable(4);
  void* memory = nullptr;
  SUBCASE("waiting for the stream") {
    error = cudaStreamSynchronize(device.stream);
  }
  SUBCASE("asking the stream") {
    error = cudaStreamQuery(device.stream);
  }
  SUBCASE("waiting for the device") {
    error = cudaDeviceSynchronize();
  }
  SUBCASE("allocating") {
    error = cudaMalloc(&memory, 4);
  }
  SUBCASE("allocating on the host") {
    error = cudaHostAlloc(&memory, 4, cudaHostAllocDefault);
  }
  SUBCASE("freeing") {
    error = cudaFree(work.values.data);
  }
  SUBCASE("a copy to memory that is not pinned") {
    error = cudaMemcpyAsync(pageable.data(), work.values.data, 16, cudaMemcpyDeviceToHost, device.stream);
  }
  CHECK(error == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(device.stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  // The stream works as before the failed capture.
  CHECK(device.download(work.values) == std::vector<uint32_t>{5, 6, 7, 8});
}

TEST_CASE("graph: a capture has one beginning and one end") {
  Emulated device;
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(device.stream, &graph) == cudaErrorIllegalState);
  CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaErrorIllegalState);
  CHECK(cudaStreamEndCapture(device.stream, &graph) == cudaSuccess);
}

__global__ void write_kernel(Global<uint32_t> values) {
  values[threadIdx.x] = 1;
}

TEST_CASE(
    "graph: a kernel that was never loaded cannot be captured; one that was launched or asked about can") {
  Emulated device;
  const Array<uint32_t> values = device.allocate<uint32_t>(4);
  cudaGraph_t graph = nullptr;
  const auto four_threads = device.config(1, 4);
  const auto capture = [&] {
    CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const cudaError_t error = cudaLaunchKernelEx(&four_threads, write_kernel, values.view());
    const cudaError_t end = cudaStreamEndCapture(device.stream, &graph);
    CHECK((error == cudaSuccess) == (end == cudaSuccess));
    return error;
  };
  CHECK(capture() == cudaErrorStreamCaptureUnsupported);
  SUBCASE("launched") {
    CHECK(device.launch(1, 4, LAUNCH(write_kernel, values.view())) == cudaSuccess);
  }
  SUBCASE("asked about") {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, write_kernel) == cudaSuccess);
  }
  CHECK(capture() == cudaSuccess);
}

TEST_CASE("graph: a fault of one node is the end of it") {
  Emulated device;
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, write_kernel) == cudaSuccess);
  const Array<uint32_t> values = device.allocate<uint32_t>(4);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  auto config = device.config(1, 5);
  CHECK(cudaLaunchKernelEx(&config, write_kernel, values.view()) == cudaSuccess);
  CHECK(cudaMemsetAsync(values.data, 0xff, 16, device.stream) == cudaSuccess);
  CHECK(cudaStreamEndCapture(device.stream, &graph) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
  CHECK(cudaGraphLaunch(executable, device.stream) == cudaSuccess);
  CHECK(device.synchronize() == cudaErrorIllegalAddress);
  CHECK(*values.data != 0xffffffff);  // the next node did not run
}

}  // namespace
}  // namespace runnel
