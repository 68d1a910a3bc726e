// The classes of cuda-runner/device, on the emulated device.
#include "cuda-runner/device/device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <numeric>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/graph.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

__global__ void add_kernel(Global<uint32_t> values, uint32_t term) {
  wait_for_previous();
  values[threadIdx.x] += term;
}

void add(const Stream& stream, DeviceBuffer<uint32_t>& values, uint32_t term) {
  const auto config = config_of(dim3(1), static_cast<uint32_t>(values.size()), stream.get());
  expect_success(cudaLaunchKernelEx(&config, add_kernel, values.view(), term), "adding");
}

TEST_CASE("device: it is opened by its number, and says what it is") {
  Emulated emulated({.compute_capability = 75, .memory_bytes = 1 << 20});
  const Result<Device> device = Device::open(0);
  REQUIRE(device);
  CHECK(device->number() == 0);
  CHECK(device->name() == "emulated GPU");
  CHECK(device->compute_capability() == 75);
  CHECK(device->total_bytes() == 1 << 20);
  // The probe has freed its memory.
  CHECK(device->free_bytes() == 1 << 20);
}

TEST_CASE("device: missing or unsupported drivers and devices are refused with the reason") {
  const auto refusal = [](const emulator::Settings& settings, int number) {
    emulator::start(settings);
    const Result<Device> device = Device::open(number);
    REQUIRE(!device);
    CHECK(device.error().exit_code == ExitCode::kNoDevice);
    return device.error().message;
  };
  CHECK(
      says(refusal({.num_devices = 0}, 0), "No CUDA device was found. Check that nvidia-smi shows the GPU."));
  CHECK(says(refusal({.driver_version = 12040}, 0),
             "The NVIDIA driver is for CUDA 12.4; this program needs one for CUDA 13.0."));
  CHECK(says(refusal({.driver_version = 0}, 0), "There is no NVIDIA driver;"));
  CHECK(says(refusal({}, 1), "GPU 1 does not exist; the last GPU is GPU 0."));
  CHECK(says(refusal({}, -1), "GPU -1 does not exist"));
  CHECK(says(refusal({.compute_capability = 61}, 0),
             "GPU 0 (emulated GPU, compute capability 6.1) is not supported: compute capability 7.0 or newer "
             "is required."));
  // The device exists, but no kernel succeeds.
  CHECK(says(refusal({.die_at_launch = 1}, 0), "A test kernel failed on GPU 0"));
}

TEST_CASE("device: buffers go to the device, through a kernel and back") {
  Emulated emulated;
  Stream stream;
  auto values = DeviceBuffer<uint32_t>::allocate(8, "the values");
  auto host = PinnedBuffer<uint32_t>::allocate(8, "the values");
  REQUIRE(values);
  REQUIRE(host);
  CHECK(values->num_bytes() == 32);
  std::iota(host->span().begin(), host->span().end(), 1u);
  stream.fill_with_zeros(*values);
  stream.upload(*values, 2, host->part(0, 5));
  add(stream, *values, 10);
  stream.download<uint32_t>(host->span(), *values, 0);
  stream.synchronize();
  const std::vector<uint32_t> expected{10, 10, 11, 12, 13, 14, 15, 10};
  CHECK(std::vector<uint32_t>(host->span().begin(), host->span().end()) == expected);
}

TEST_CASE("device: an oversized allocation is an error with needed and available bytes") {
  Emulated emulated({.memory_bytes = 1 << 20});
  const auto held = DeviceBuffer<float>::allocate(1024, "the weights");
  REQUIRE(held);
  const auto refused = DeviceBuffer<float>::allocate(1 << 18, "the KV cache");
  REQUIRE(!refused);
  CHECK(refused.error().exit_code == ExitCode::kSystem);
  CHECK(says(refused.error().message, "the KV cache needs 1048576 bytes; 1044480 of 1048576 bytes are free"));
  CHECK(refused.error().shortage->required_bytes == 1048576);
  CHECK(refused.error().shortage->available_bytes == 1044480);
  // The error is cleared, so later calls do not return it.
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(DeviceBuffer<float>::allocate(1024, "the logits"));
}

TEST_CASE("device: buffers give back what they held, and own one thing when moved") {
  Emulated emulated({.memory_bytes = 1 << 20});
  for (int i = 0; i < 3; ++i) {
    auto first = DeviceBuffer<uint8_t>::allocate(1 << 19, "a half");
    REQUIRE(first);
    DeviceBuffer<uint8_t> second = std::move(*first);
    CHECK(second.size() == 1 << 19);
    DeviceBuffer<uint8_t> third;
    third = std::move(second);
    CHECK(DeviceBuffer<uint8_t>::allocate(1 << 19, "the other half"));
  }
}

TEST_CASE("device: a graph repeats the captured work each time") {
  Emulated emulated;
  Stream stream;
  auto values = DeviceBuffer<uint32_t>::allocate(4, "the values");
  REQUIRE(values);
  stream.fill_with_zeros(*values);
  CHECK(load_all(add_kernel) == cudaSuccess);
  GraphCapture capture(stream);
  add(stream, *values, 1);
  add(stream, *values, 2);
  const Graph graph = capture.end();
  for (int i = 0; i < 5; ++i) graph.launch(stream);
  std::vector<uint32_t> host(4);
  stream.download<uint32_t>(host, *values, 0);
  CHECK(host == std::vector<uint32_t>(4, 15));
}

TEST_CASE("device: a stream waits for an event of another one") {
  Emulated emulated;
  Stream first;
  Stream second;
  Event begin;
  Event end;
  auto values = DeviceBuffer<uint32_t>::allocate(4, "the values");
  auto host = PinnedBuffer<uint32_t>::allocate(4, "the values");
  REQUIRE(values);
  REQUIRE(host);
  begin.record(first);
  first.fill_with_zeros(*values);
  add(first, *values, 3);
  end.record(first);
  second.wait(end);
  second.download<uint32_t>(host->span(), *values, 0);
  second.synchronize();
  CHECK(host->span()[3] == 3);
  CHECK(Event::milliseconds_between(begin, end) >= 0);
}

// The wait status of a child process that runs the action.
int status_of_child(const std::function<void()>& action) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    action();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("device: a lost device ends the process with its own status") {
  const int status = status_of_child([] {
    Emulated emulated({.die_at_launch = 2});
    Stream stream;
    auto values = DeviceBuffer<uint32_t>::allocate(4, "the values");
    stream.fill_with_zeros(*values);
    add(stream, *values, 1);
    add(stream, *values, 1);
    stream.synchronize();
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::kDeviceLost));
}

TEST_CASE("device: a call that this program gets wrong aborts it, and does not pass for a lost device") {
  const int status = status_of_child([] {
    Emulated emulated;
    Stream stream;
    signal(SIGABRT, SIG_DFL);
    const auto config = config_of(dim3(1), 2048, stream.get());
    expect_success(cudaLaunchKernelEx(&config, add_kernel, Global<uint32_t>(nullptr, 0), 1), "adding");
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

}  // namespace
}  // namespace runnel
