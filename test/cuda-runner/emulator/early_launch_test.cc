// Launches that may begin before those before them are complete, and must wait before they use what these
// use.
#include "cuda-runner/kernels/launch.h"
#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kThreads = 32;

enum class Use { kNothing, kReads, kReadsElement, kReadsOnly, kWrites, kCopies };

// Uses memory before it waits. The threads from num_waiting on do not wait.
__global__ void use_kernel(Global<uint32_t> memory, Global<const uint32_t> constants, Use use,
                           uint32_t num_waiting) {
  __shared__ Shared<uint32_t, 4 * kThreads> shared;
  let_next_begin();
  uint32_t value = 0;
  switch (use) {
    case Use::kNothing:
      break;
    case Use::kReads:
      value = memory.load<uint32_t>(threadIdx.x);
      break;
    case Use::kReadsElement:
      value = constants[threadIdx.x];
      break;
    case Use::kReadsOnly:
      value = constants.load_read_only<uint32_t>(threadIdx.x);
      break;
    case Use::kWrites:
      memory[threadIdx.x] = 1;
      break;
    case Use::kCopies:
      copy_async(shared, 4 * threadIdx.x, constants, 0);
      break;
  }
  if (threadIdx.x >= num_waiting) return;
  wait_for_previous();
  memory[threadIdx.x] = memory[threadIdx.x] + constants[threadIdx.x] + value;
}

struct Work {
  cudaError_t launch(Use use, uint32_t num_waiting = kThreads) {
    const cudaLaunchConfig_t config = config_of(dim3(1), kThreads, device.stream);
    const cudaError_t error =
        cudaLaunchKernelEx(&config, use_kernel, memory.view(), constants.read_only(), use, num_waiting);
    return error == cudaSuccess ? device.synchronize() : error;
  }

  Emulated device;
  Array<uint32_t> memory = device.upload(std::vector<uint32_t>(kThreads, 3));
  Array<uint32_t> constants = device.upload(std::vector<uint32_t>(kThreads, 5));
};

TEST_CASE_FIXTURE(Work, "early launch: memory may be used after the wait, and constants are read before it") {
  CHECK(launch(Use::kNothing) == cudaSuccess);
  CHECK(device.download(memory)[kThreads - 1] == 8);
  CHECK(launch(Use::kReadsOnly) == cudaSuccess);
  CHECK(device.download(memory)[kThreads - 1] == 18);
}

TEST_CASE_FIXTURE(Work, "early launch: memory that is used before the wait is reported") {
  const char* const kMayWrite = "which an earlier launch may still write";
  Use use{};
  const char* what = "reads element";
  const char* why = kMayWrite;
  SUBCASE("read") {
    use = Use::kReads;
  }
  SUBCASE("read by []") {
    use = Use::kReadsElement;
  }
  SUBCASE("copied") {
    use = Use::kCopies;
  }
  SUBCASE("written") {
    use = Use::kWrites;
    what = "writes element";
    why = "which an earlier launch may still use";
  }
  CHECK(launch(use) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), what));
  CHECK(says(emulator::last_fault(),
             std::string(" of a view of 32 elements of 4 bytes before wait_for_previous(), ") + why));
}

TEST_CASE_FIXTURE(Work, "early launch: load_read_only before the wait is for memory that no kernel wrote") {
  const auto write_by_kernel = [&] {
    std::swap(memory.data, constants.data);
    CHECK(launch(Use::kNothing) == cudaSuccess);
    std::swap(memory.data, constants.data);
  };
  write_by_kernel();
  SUBCASE("a copy wrote it since") {
    constants = device.upload(std::vector<uint32_t>(kThreads, 5));
    CHECK(launch(Use::kReadsOnly) == cudaSuccess);
  }
  SUBCASE("a copy of it") {
    const Array<uint32_t> copy = device.allocate<uint32_t>(kThreads);
    CHECK(cudaMemcpyAsync(copy.data, constants.data, 4 * kThreads, cudaMemcpyDeviceToDevice, device.stream) ==
          cudaSuccess);
    constants = copy;
    CHECK(launch(Use::kReadsOnly) == cudaSuccess);
  }
  SUBCASE("a kernel was the last to write it") {
    CHECK(launch(Use::kReadsOnly) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "before wait_for_previous(), which a kernel wrote"));
  }
}

TEST_CASE_FIXTURE(Work, "early launch: a thread that ends without waiting is reported") {
  CHECK(launch(Use::kNothing, kThreads - 1) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(),
             "thread (31, 0, 0) ends without wait_for_previous(), so the launches before it may end later"));
}

TEST_CASE_FIXTURE(Work, "early launch: a launch that begins after those before it need not wait") {
  for (const Use use : {Use::kReads, Use::kReadsElement, Use::kReadsOnly, Use::kWrites, Use::kCopies})
    CHECK(device.launch(1, kThreads,
                        LAUNCH(use_kernel, memory.view(), constants.read_only(), use, kThreads - 1)) ==
          cudaSuccess);
}

TEST_CASE("early launch: devices below 9.0 refuse it, and config_of does not ask them for it") {
  for (const uint32_t capability : {80u, 89u, 90u, 120u}) {
    CAPTURE(capability);
    Emulated device({.compute_capability = capability});
    const Array<uint32_t> memory = device.upload(std::vector<uint32_t>(kThreads, 3));
    cudaLaunchConfig_t config = config_of(dim3(1), kThreads, device.stream);
    CHECK(config.numAttrs == (capability >= 90 ? 1 : 0));
    CHECK(cudaLaunchKernelEx(&config, use_kernel, memory.view(), memory.read_only(), Use::kNothing,
                             kThreads) == cudaSuccess);
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, use_kernel, memory.view(), memory.read_only(), Use::kNothing,
                             kThreads) == (capability >= 90 ? cudaSuccess : cudaErrorInvalidValue));
    CHECK(device.synchronize() == cudaSuccess);
  }
}

TEST_CASE_FIXTURE(Work, "early launch: other attributes are refused") {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = device.config(1, kThreads);
  config.attrs = &cooperative;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, use_kernel, memory.view(), constants.read_only(), Use::kNothing,
                           kThreads) == cudaErrorInvalidValue);
  CHECK(device.synchronize() == cudaSuccess);
}

}  // namespace
}  // namespace runnel
