// The threads of a block: barriers, shuffles, and faults in their use.
#include "cuda-runner/emulator/block.h"

#include <algorithm>
#include <set>

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kThreads = 256;

// out[block] = the sum of the block's part of in.
__global__ void sum_kernel(Global<const float> in, Global<float> out) {
  __shared__ Shared<float, kThreads / kWarpSize> sums;
  float value = in[blockIdx.x * kThreads + threadIdx.x];
  for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  if (lane() == 0) sums[warp()] = value;
  sync_block();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (uint32_t i = 0; i < kThreads / kWarpSize; ++i) sum += sums[i];
  out[blockIdx.x] = sum;
}

TEST_CASE("block: a kernel with barriers, shuffles, shared memory and views computes what it says") {
  Emulated device;
  constexpr uint32_t kBlocks = 8;
  std::vector<float> values(kBlocks * kThreads);
  std::vector<float> expected(kBlocks);
  for (uint32_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 7);
    expected[i / kThreads] += values[i];
  }
  const Array<float> in = device.upload(values);
  const Array<float> out = device.allocate<float>(kBlocks);
  CHECK(device.launch(kBlocks, kThreads, LAUNCH(sum_kernel, in.read_only(), out.view())) == cudaSuccess);
  CHECK(device.download(out) == expected);
}

__global__ void index_kernel(Global<uint32_t> out) {
  const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] = block * threads + thread;
}

TEST_CASE("block: every thread of every block runs once, with its own indices, in three dimensions") {
  Emulated device;
  const dim3 blocks(3, 2, 5);
  const dim3 threads(7, 3, 2);
  const Array<uint32_t> out = device.allocate<uint32_t>(3 * 2 * 5 * 7 * 3 * 2);
  CHECK(device.launch(blocks, threads, LAUNCH(index_kernel, out.view())) == cudaSuccess);
  const std::vector<uint32_t> values = device.download(out);
  for (uint32_t i = 0; i < values.size(); ++i) CHECK(values[i] == i);
}

// out[i] = the i-th block that ran.
__global__ void order_kernel(Global<uint32_t> next, Global<uint32_t> out) {
  const uint32_t position = next[0];
  next[0] = position + 1;
  out[position] = blockIdx.x;
}

std::vector<uint32_t> order_of_blocks(uint64_t seed) {
  constexpr uint32_t kBlocks = 40;
  Emulated device({.seed = seed});
  const Array<uint32_t> next = device.upload(std::vector<uint32_t>{0});
  const Array<uint32_t> out = device.allocate<uint32_t>(kBlocks);
  CHECK(device.launch(kBlocks, 1, LAUNCH(order_kernel, next.view(), out.view())) == cudaSuccess);
  return device.download(out);
}

TEST_CASE("block: the order of blocks is the seed's") {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<uint32_t> order = order_of_blocks(seed);
    CHECK(order == order_of_blocks(seed));
    CHECK(std::set<uint32_t>(order.begin(), order.end()).size() == order.size());
    orders.insert(order);
  }
  CHECK(orders.size() > 1);
}

__global__ void shuffle_kernel(Global<uint32_t> out) {
  const uint32_t thread = threadIdx.x;
  // Without a barrier in between: the second shuffle must not overwrite the values of the first.
  const uint32_t first = shuffle(100 + thread, 31 - lane());
  const uint32_t second = shuffle_xor(200 + thread, 1);
  const uint32_t third = shuffle(300 + thread, 5);
  out[3 * thread] = first;
  out[3 * thread + 1] = second;
  out[3 * thread + 2] = third;
}

TEST_CASE("block: shuffles bring values of the same warp") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(3 * 64);
  CHECK(device.launch(1, 64, LAUNCH(shuffle_kernel, out.view())) == cudaSuccess);
  const std::vector<uint32_t> values = device.download(out);
  for (uint32_t thread = 0; thread < 64; ++thread) {
    const uint32_t first_of_warp = thread / 32 * 32;
    CHECK(values[3 * thread] == 100 + first_of_warp + 31 - thread % 32);
    CHECK(values[3 * thread + 1] == 200 + (thread ^ 1));
    CHECK(values[3 * thread + 2] == 300 + first_of_warp + 5);
  }
}

// One half of the warp shuffles, the other half returns.
__global__ void divergent_shuffle_kernel(Global<uint32_t> out) {
  if (lane() < 16) out[lane()] = shuffle_xor(lane(), 1);
}

TEST_CASE("block: a shuffle that half of the warp comes to is reported, with who waits where") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(32);
  CHECK(device.launch(1, 32, LAUNCH(divergent_shuffle_kernel, out.view())) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "Kernel divergent_shuffle_kernel, block (0, 0, 0)"));
  CHECK(says(emulator::last_fault(), "16 threads wait in shuffle_xor() at block_test.cc:"));
  CHECK(says(emulator::last_fault(), "16 of 32 have returned"));
}

__global__ void two_shuffles_kernel(Global<uint32_t> out) {
  if (lane() < 16)
    out[lane()] = shuffle(lane(), 0);
  else
    out[lane()] = shuffle(lane(), 0);
}

TEST_CASE("block: lanes that come to different shuffles are reported") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(32);
  CHECK(device.launch(1, 32, LAUNCH(two_shuffles_kernel, out.view())) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "all must come to the same one"));
}

__global__ void some_sync_kernel() {
  if (threadIdx.x < 33) sync_block();
}
__global__ void two_syncs_kernel() {
  if (threadIdx.x < 32)
    sync_block();
  else
    sync_block();
}
__global__ void mixed_kernel() {
  if (threadIdx.x < 32)
    sync_block();
  else
    sync_warp();
}
__global__ void all_sync_kernel() {
  for (int i = 0; i < 3; ++i) sync_block();
  sync_warp();
}

TEST_CASE("block: a barrier that not all come to is reported, and one that all come to is none") {
  Emulated device;
  CHECK(device.launch(1, 64, LAUNCH(all_sync_kernel)) == cudaSuccess);
  SUBCASE("some return") {
    CHECK(device.launch(1, 64, LAUNCH(some_sync_kernel)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "33 threads wait in sync_block() at block_test.cc:"));
    CHECK(says(emulator::last_fault(), "31 of 64 have returned"));
  }
  SUBCASE("some come to another") {
    CHECK(device.launch(1, 64, LAUNCH(two_syncs_kernel)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "some threads wait in sync_block()"));
  }
  SUBCASE("warps that wait for themselves go on") {
    CHECK(device.launch(1, 64, LAUNCH(mixed_kernel)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "32 threads wait in sync_block()"));
    CHECK(says(emulator::last_fault(), "32 of 64 have returned"));
  }
}

__global__ void far_shuffle_kernel() {
  shuffle(1.0f, 32);
}
__global__ void xor_kernel() {
  shuffle_xor(1.0f, 32);
}
__global__ void short_warp_kernel() {
  shuffle(1.0f, 0);
}

TEST_CASE("block: shuffles beyond the warp, and in warps that are not whole, are reported") {
  Emulated device;
  SUBCASE("from") {
    CHECK(device.launch(1, 32, LAUNCH(far_shuffle_kernel)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "shuffles from lane 32 of 32"));
  }
  SUBCASE("by a mask") {
    CHECK(device.launch(1, 32, LAUNCH(xor_kernel)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "by the mask 32"));
  }
  SUBCASE("in a part of a warp") {
    CHECK(device.launch(1, 48, LAUNCH(short_warp_kernel)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "in a warp of 16 threads"));
  }
}

// Waits for a flag that no thread sets.
__global__ void endless_barriers_kernel(Global<const uint32_t> flag) {
  if (threadIdx.x >= 40) return;
  while (flag[0] == 0) sync_warp();
}
__global__ void endless_reads_kernel(Global<const uint32_t> flag) {
  if (threadIdx.x == 3) {
    while (flag[0] == 0) continue;
  }
  sync_block();
}

TEST_CASE("block: a block that does not end is stopped, and its waiting threads are reported") {
  Emulated device({.max_block_ms = 50});
  const Array<uint32_t> flag = device.upload(std::vector<uint32_t>{0});
  SUBCASE("over barriers") {
    CHECK(device.launch(1, 64, LAUNCH(endless_barriers_kernel, flag.read_only())) == cudaErrorLaunchTimeout);
    CHECK(says(emulator::last_fault(),
               "Kernel endless_barriers_kernel, block (0, 0, 0): it has not ended in "));
    CHECK(says(emulator::last_fault(), "24 of 64 have returned"));
  }
  SUBCASE("over memory") {
    CHECK(device.launch(1, 64, LAUNCH(endless_reads_kernel, flag.read_only())) == cudaErrorLaunchTimeout);
    CHECK(says(emulator::last_fault(), "ms of the processor's time: thread 3 runs, at block_test.cc:"));
    CHECK(says(emulator::last_fault(), "threads wait in sync_block() at block_test.cc:"));
    CHECK(says(emulator::last_fault(), "0 of 64 have returned"));
  }
}

constexpr uint32_t kBound = 96;
__global__ void __launch_bounds__(kBound) bounded_kernel() {
  sync_block();
}
struct Wide {
  static constexpr uint32_t kThreads = 512;
};
template <typename Size>
__global__ void __launch_bounds__(Size::kThreads, 2) bounded_template_kernel() {
  sync_block();
}
// This kernel has no bounds and directly follows one that has.
__global__ void unbounded_kernel() {
  sync_block();
}

TEST_CASE("block: a launch of more threads than the kernel's launch bounds is refused") {
  Emulated device;
  CHECK(device.launch(1, 96, LAUNCH(bounded_kernel)) == cudaSuccess);
  CHECK(device.launch(1, 97, LAUNCH(bounded_kernel)) == cudaErrorInvalidValue);
  CHECK(device.launch(1, 512, LAUNCH(bounded_template_kernel<Wide>)) == cudaSuccess);
  CHECK(device.launch(1, 513, LAUNCH(bounded_template_kernel<Wide>)) == cudaErrorInvalidValue);
  CHECK(device.launch(1, 1024, LAUNCH(unbounded_kernel)) == cudaSuccess);
  cudaFuncAttributes attributes{};
  CHECK(cudaFuncGetAttributes(&attributes, bounded_kernel) == cudaSuccess);
  CHECK(attributes.maxThreadsPerBlock == 96);
}

}  // namespace
}  // namespace runnel
