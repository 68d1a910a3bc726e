// The emulated device as a whole: its memory, wrong calls, and the loss of the device.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>

#include "runner/sandbox/sandbox.h"
#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

__global__ void fill_kernel(Global<uint32_t> out) {
  out[threadIdx.x] = threadIdx.x;
}
__global__ void barrier_kernel() {
  sync_block();
}

TEST_CASE("emulated device: memory is out at the byte") {
  Emulated device({.memory_bytes = 1 << 20});
  void* large = nullptr;
  void* small = nullptr;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CHECK(cudaMalloc(&large, (1 << 20) + 1) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&large, (1 << 20) - 256) == cudaSuccess);
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
  CHECK(free_bytes == 256);
  CHECK(total_bytes == 1 << 20);
  CHECK(cudaMalloc(&small, 257) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&small, 1) == cudaSuccess);
  CHECK(cudaMalloc(&small, 1) == cudaErrorMemoryAllocation);
  CHECK(cudaFree(large) == cudaSuccess);
  CHECK(cudaFree(large) == cudaErrorInvalidValue);
  CHECK(cudaMalloc(&large, (1 << 20) - 256) == cudaSuccess);
}

TEST_CASE("emulated device: allocations take whole pieces of 256 bytes, and none takes more than there is") {
  Emulated device({.memory_bytes = 1000});
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, SIZE_MAX) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&memory, 769) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&memory, 768) == cudaSuccess);
}

TEST_CASE("emulated device: copies beyond an allocation and copies of unwritten memory fail") {
  Emulated device;
  const Array<uint32_t> array = device.allocate<uint32_t>(4);
  std::vector<uint32_t> values(5);
  CHECK(cudaMemcpyAsync(array.data, values.data(), 20, cudaMemcpyHostToDevice, device.stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(values.data(), array.data, 20, cudaMemcpyDeviceToHost, device.stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(values.data(), array.data, 16, cudaMemcpyHostToDevice, device.stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(array.data, 0, 20, device.stream) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(array.data, 0, 15, device.stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(values.data(), array.data, 15, cudaMemcpyDeviceToHost, device.stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(values.data(), array.data, 16, cudaMemcpyDeviceToHost, device.stream) ==
        cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "reads byte 15, which was never written"));
}

TEST_CASE("emulated device: a device copy of unwritten memory is unwritten") {
  Emulated device;
  const Array<uint32_t> from = device.allocate<uint32_t>(2);
  const Array<uint32_t> to = device.upload(std::vector<uint32_t>{1, 2});
  CHECK(cudaMemsetAsync(from.data, 0, 4, device.stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(to.data, from.data, 8, cudaMemcpyDeviceToDevice, device.stream) == cudaSuccess);
  CHECK(device.download(Array<uint32_t>{to.data, 1})[0] == 0);
  std::vector<uint32_t> values(2);
  CHECK(cudaMemcpyAsync(values.data(), to.data, 8, cudaMemcpyDeviceToHost, device.stream) ==
        cudaErrorLaunchFailure);
}

TEST_CASE("emulated device: launches that no device can make, or this one does not, are refused") {
  Emulated device;
  const auto launch = [&](dim3 blocks, dim3 threads, size_t shared_bytes = 0) {
    auto config = device.config(blocks, threads);
    config.dynamicSmemBytes = shared_bytes;
    return cudaLaunchKernelEx(&config, barrier_kernel);
  };
  CHECK(launch(1, 1024) == cudaSuccess);
  CHECK(launch(1, 1025) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, dim3(32, 32, 2)) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(0, 1) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1, 65536), 1) == cudaErrorInvalidConfiguration);
  constexpr int kPlainBytes = 48 * 1024;
  CHECK(launch(1, 1, kPlainBytes) == cudaSuccess);
  CHECK(launch(1, 1, kPlainBytes + 1) == cudaErrorInvalidValue);
  int most = 0;
  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess);
  CHECK(most == 227 * 1024);
  constexpr auto kAttribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  CHECK(cudaFuncSetAttribute(barrier_kernel, kAttribute, most + 1) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(barrier_kernel, kAttribute, most) == cudaSuccess);
  CHECK(launch(1, 1, static_cast<size_t>(most)) == cudaSuccess);
  CHECK(launch(1, 1, static_cast<size_t>(most) + 1) == cudaErrorInvalidValue);
  // These were only failed calls, and the device is not lost.
  CHECK(device.synchronize() == cudaSuccess);
}

TEST_CASE("emulated device: after a fault each call returns it, and nothing runs") {
  Emulated device;
  const Array<uint32_t> array = device.allocate<uint32_t>(4);
  CHECK(device.launch(1, 5, LAUNCH(fill_kernel, array.view())) == cudaErrorIllegalAddress);
  CHECK(says(emulator::last_fault(), "where nothing is allocated"));
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
    CHECK(cudaPeekAtLastError() == cudaErrorIllegalAddress);
    CHECK(device.launch(1, 4, LAUNCH(fill_kernel, array.view())) == cudaErrorIllegalAddress);
    CHECK(cudaStreamSynchronize(device.stream) == cudaErrorIllegalAddress);
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    size_t bytes = 0;
    CHECK(cudaMemGetInfo(&bytes, &bytes) == cudaErrorIllegalAddress);
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, 4) == cudaErrorIllegalAddress);
    CHECK(cudaFree(array.data) == cudaErrorIllegalAddress);
  }
  CHECK(std::string(cudaGetErrorName(cudaErrorIllegalAddress)) == "cudaErrorIllegalAddress");
  // A fault of one device does not affect the next one.
  Emulated next;
  const Array<uint32_t> values = next.allocate<uint32_t>(4);
  CHECK(next.launch(1, 4, LAUNCH(fill_kernel, values.view())) == cudaSuccess);
}

TEST_CASE("emulated device: it dies at the configured launch") {
  Emulated device({.die_at_launch = 3});
  const Array<uint32_t> array = device.allocate<uint32_t>(4);
  CHECK(device.launch(1, 4, LAUNCH(fill_kernel, array.view())) == cudaSuccess);
  CHECK(device.launch(1, 4, LAUNCH(fill_kernel, array.view())) == cudaSuccess);
  CHECK(device.launch(1, 4, LAUNCH(fill_kernel, array.view())) == cudaErrorECCUncorrectable);
  CHECK(cudaDeviceSynchronize() == cudaErrorECCUncorrectable);
}

TEST_CASE("emulated device: there may be none, or none that the driver can serve") {
  int count = -1;
  SUBCASE("none") {
    emulator::start({.num_devices = 0});
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
    CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
  }
  SUBCASE("an old driver") {
    emulator::start({.driver_version = 12040});
    CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
    int version = 0;
    CHECK(cudaDriverGetVersion(&version) == cudaSuccess);
    CHECK(version == 12040);
  }
  CHECK(count == 0);
}

// The exit status of a child process that runs the action, or 128 + the signal that ended it.
int status_of_child(const std::function<int()>& action) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(action());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("emulated device: the environment configures it, and an invalid value ends the process") {
  const auto status_with = [](const char* name, const char* value, const std::function<bool()>& is_good) {
    return status_of_child([&] {
      setenv(name, value, 1);
      emulator::start(emulator::settings_from_environment());
      return is_good() ? 0 : 1;
    });
  };
  const auto memory_is_1000 = [] { return emulator::settings().memory_bytes == 1000; };
  CHECK(status_with("RUNNEL_EMULATOR_MEMORY_BYTES", "1000", memory_is_1000) == 0);
  CHECK(status_with("RUNNEL_EMULATOR_MEMORY_BYTES", "1001", memory_is_1000) == 1);
  CHECK(status_with("RUNNEL_EMULATOR_MEMORY_BYTES", "1e3", memory_is_1000) == 64);
  CHECK(status_with("RUNNEL_EMULATOR_DEVICES", "9", memory_is_1000) == 64);
  CHECK(status_with("RUNNEL_EMULATOR_DEVICES", "0", [] { return emulator::settings().num_devices == 0; }) ==
        0);
  CHECK(status_with("RUNNEL_EMULATOR_COMPUTE_CAPABILITY", "61",
                    [] { return emulator::settings().compute_capability == 61; }) == 0);
  CHECK(status_with("RUNNEL_EMULATOR_DIE_AT_LAUNCH", "7",
                    [] { return emulator::settings().die_at_launch == 7; }) == 0);
  CHECK(status_with("RUNNEL_EMULATOR_FLIP_AFTER_LAUNCH", "7",
                    [] { return emulator::settings().flip_after_launch == 7; }) == 0);
  CHECK(status_with("RUNNEL_EMULATOR_DRIVER_VERSION", "12000",
                    [] { return emulator::settings().driver_version == 12000; }) == 0);
  CHECK(status_with("RUNNEL_EMULATOR_RACES", "1", [] { return emulator::settings().finds_races; }) == 0);
  CHECK(status_with("RUNNEL_EMULATOR_RACES", "2", [] { return true; }) == 64);
  CHECK(status_with("RUNNEL_EMULATOR_MAX_BLOCK_MS", "5",
                    [] { return emulator::settings().max_block_ms == 5; }) == 0);
  CHECK(status_with("RUNNEL_EMULATOR_SEED", "5", [] { return emulator::settings().seed == 5; }) == 0);
}

TEST_CASE("emulated device: kernels run inside the sandbox of a runner, from the first call on") {
  if (const auto why = sandbox_obstacle()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  CHECK(status_of_child([] {
          if (!enter_sandbox(SandboxMode::kAuto)) return 1;
          Emulated device;
          const Array<uint32_t> array = device.allocate<uint32_t>(512);
          if (device.launch(1, 512, LAUNCH(fill_kernel, array.view())) != cudaSuccess) return 2;
          if (device.launch(2, 1024, LAUNCH(barrier_kernel)) != cudaSuccess) return 3;
          return device.download(array)[511] == 511 ? 0 : 4;
        }) == 0);
}

}  // namespace
}  // namespace runnel
