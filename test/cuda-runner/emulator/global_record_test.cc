// Races on device memory within a launch.
#include "cuda-runner/emulator/global_record.h"

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kThreads = 64;

enum class Order { kNone, kBlockBarrier, kWarpBarrier };

template <Order kOrder>
__device__ void order() {
  if (kOrder == Order::kBlockBarrier) sync_block();
  if (kOrder == Order::kWarpBarrier) sync_warp();
}

// Exchanges the values of a block's threads through device memory.
template <Order kOrder>
__global__ void reverse_kernel(Global<uint32_t> values, Global<uint32_t> out, uint32_t mask) {
  const uint32_t first = blockIdx.x * kThreads;
  values[first + threadIdx.x] = threadIdx.x;
  order<kOrder>();
  out[first + threadIdx.x] = values[first + (threadIdx.x ^ mask)];
}

TEST_CASE("global record: a read of what another thread of the block wrote needs a barrier between") {
  Emulated device({.finds_races = true});
  const Array<uint32_t> values = device.allocate<uint32_t>(3 * kThreads);
  const Array<uint32_t> out = device.allocate<uint32_t>(3 * kThreads);
  const auto launch = [&](auto kernel, uint32_t mask) {
    return device.launch(3, kThreads, LAUNCH(kernel, values.view(), out.view(), mask));
  };
  // The memory is written first, so that it does not count as never written.
  CHECK(cudaMemsetAsync(values.data, 0, 3 * kThreads * 4, device.stream) == cudaSuccess);
  // Twice, because writes of an earlier launch must not count as races.
  CHECK(launch(reverse_kernel<Order::kBlockBarrier>, 63) == cudaSuccess);
  CHECK(launch(reverse_kernel<Order::kBlockBarrier>, 63) == cudaSuccess);
  CHECK(launch(reverse_kernel<Order::kWarpBarrier>, 1) == cudaSuccess);
  CHECK(device.download(out)[0] == 1);
  SUBCASE("none") {
    CHECK(launch(reverse_kernel<Order::kNone>, 1) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "thread"));
    CHECK(says(emulator::last_fault(), "of a view of 192 elements of 4 bytes, which"));
    CHECK(says(emulator::last_fault(), "without a barrier between, at global_record_test.cc:"));
  }
  SUBCASE("that of another warp") {
    CHECK(launch(reverse_kernel<Order::kWarpBarrier>, 32) == cudaErrorLaunchFailure);
  }
}

// Each thread reads its neighbour's value, then writes its own.
template <Order kOrder>
__global__ void shift_kernel(Global<uint32_t> values) {
  const uint32_t next = values[(threadIdx.x + 1) % kThreads];
  order<kOrder>();
  values[threadIdx.x] = next;
}
__global__ void one_element_kernel(Global<uint32_t> values) {
  values[threadIdx.x / 2] = 1 + threadIdx.x;
}
__global__ void one_value_kernel(Global<uint32_t> values) {
  values[0] = 7;
}
// Each thread writes its own byte of a word.
__global__ void bytes_kernel(Global<uint8_t> bytes) {
  bytes[threadIdx.x] = 1;
  bytes[threadIdx.x] += 1;
}

TEST_CASE(
    "global record: writers need a barrier after readers, and after each other where they differ, byte by "
    "byte") {
  Emulated device({.finds_races = true});
  const Array<uint32_t> values = device.upload(std::vector<uint32_t>(kThreads, 5));
  const Array<uint8_t> bytes = device.allocate<uint8_t>(kThreads);
  CHECK(device.launch(1, kThreads, LAUNCH(shift_kernel<Order::kBlockBarrier>, values.view())) == cudaSuccess);
  CHECK(device.launch(1, kThreads, LAUNCH(bytes_kernel, bytes.view())) == cudaSuccess);
  CHECK(device.download(bytes)[7] == 2);
  CHECK(device.launch(2, kThreads, LAUNCH(one_value_kernel, values.view())) == cudaSuccess);
  SUBCASE("after readers") {
    CHECK(device.launch(1, kThreads, LAUNCH(shift_kernel<Order::kNone>, values.view())) ==
          cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "which another thread read, without a barrier between"));
  }
  SUBCASE("after each other") {
    CHECK(device.launch(1, kThreads, LAUNCH(one_element_kernel, values.view())) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "wrote, without a barrier between"));
  }
}

// out = the sum of in. Each block writes its part, and the block that counts itself as the last one adds them
// up.
__global__ void last_block_kernel(Global<const float> in, Global<float> parts, Global<uint32_t> num_done,
                                  Global<float> out) {
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = in[blockIdx.x];
    // This stands for a count by an atomic operation, which orders nothing by itself.
    const Global<uint32_t> own_count = num_done.from(blockIdx.x, 1);
    own_count[0] = 1;
    if (blockIdx.x + 1 == gridDim.x) {
      float sum = 0.0f;
      for (uint32_t block = 0; block < gridDim.x; ++block) sum += parts[block];
      out[0] = sum;
    }
  }
}

TEST_CASE("global record: a last block that adds up what the others wrote is found, whichever runs last") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    Emulated device({.finds_races = true, .seed = seed});
    const Array<float> in = device.upload(std::vector<float>(4, 1.0f));
    const Array<float> parts = device.upload(std::vector<float>(4, 0.0f));
    const Array<uint32_t> num_done = device.upload(std::vector<uint32_t>(4, 0));
    const Array<float> out = device.allocate<float>(1);
    CHECK(device.launch(
              4, 32, LAUNCH(last_block_kernel, in.read_only(), parts.view(), num_done.view(), out.view())) ==
          cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "another block of this launch"));
    CHECK(says(emulator::last_fault(), "nothing orders the blocks of a launch"));
  }
}

// All blocks read one element, and one block also writes it.
__global__ void shared_flag_kernel(Global<uint32_t> flag, Global<uint32_t> out, uint32_t writer) {
  out[blockIdx.x] = flag[0];
  if (blockIdx.x == writer) flag[0] = 1;
}

TEST_CASE("global record: a block that writes what others read is found, before them or after") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    Emulated device({.finds_races = true, .seed = seed});
    const Array<uint32_t> flag = device.upload(std::vector<uint32_t>{0});
    const Array<uint32_t> out = device.allocate<uint32_t>(5);
    CHECK(device.launch(5, 1, LAUNCH(shared_flag_kernel, flag.view(), out.view(), 99)) == cudaSuccess);
    CHECK(device.launch(5, 1, LAUNCH(shared_flag_kernel, flag.view(), out.view(), 2)) ==
          cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "another block of this launch"));
  }
}

// Each thread reads its own value through the read-only path, before or after it writes it.
__global__ void read_only_kernel(Global<uint32_t> values, Global<uint32_t> out, bool is_after) {
  uint32_t value = 0;
  if (!is_after) value = values.load_read_only<uint32_t>(threadIdx.x);
  values[threadIdx.x] = threadIdx.x;
  sync_block();
  if (is_after) value = values.load_read_only<uint32_t>(threadIdx.x);
  out[threadIdx.x] = value;
}
__global__ void copy_kernel(Global<const uint32_t> values, Global<uint32_t> out) {
  out[threadIdx.x] = values.load_read_only<uint32_t>(threadIdx.x);
}

TEST_CASE("global record: load_read_only of a value that the same launch wrote fails") {
  Emulated device({.finds_races = true});
  const Array<uint32_t> values = device.upload(std::vector<uint32_t>(32, 5));
  const Array<uint32_t> out = device.allocate<uint32_t>(32);
  // A write of the launch before is allowed.
  CHECK(device.launch(1, 32, LAUNCH(copy_kernel, values.read_only(), out.view())) == cudaSuccess);
  CHECK(device.launch(1, 32, LAUNCH(copy_kernel, out.read_only(), values.view())) == cudaSuccess);
  SUBCASE("after") {
    CHECK(device.launch(1, 32, LAUNCH(read_only_kernel, values.view(), out.view(), true)) ==
          cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(),
               "of a view of 32 elements of 4 bytes, by load_read_only(), which this launch wrote"));
  }
  SUBCASE("before") {
    CHECK(device.launch(1, 32, LAUNCH(read_only_kernel, values.view(), out.view(), false)) ==
          cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "which this launch read by load_read_only()"));
  }
}

TEST_CASE("global record: races are looked for where the settings say so alone") {
  Emulated device;
  const Array<uint32_t> values = device.upload(std::vector<uint32_t>(kThreads, 5));
  CHECK(device.launch(1, kThreads, LAUNCH(one_element_kernel, values.view())) == cudaSuccess);
}

}  // namespace
}  // namespace runnel
