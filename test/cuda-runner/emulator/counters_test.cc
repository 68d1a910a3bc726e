// Counters of launches and of what they do to memory, by kernels whose figures are known.
#include "cuda-runner/emulator/counters.h"

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kThreads = 64;
constexpr uint32_t kWords = 32 * kThreads;

struct Fixture {
  template <typename Launch>
  emulator::Counts count(dim3 blocks, const Launch& launch) {
    const emulator::Counters counters;
    CHECK(device.launch(blocks, kThreads, launch) == cudaSuccess);
    return counters.of("");
  }

  Emulated device;
  Array<uint32_t> in = device.upload(std::vector<uint32_t>(kWords, 3));
  Array<uint32_t> out = device.upload(std::vector<uint32_t>(kWords, 4));
};

// Each lane loads a V, `stride` words after that of the lane before.
template <typename V>
__global__ void load_kernel(Global<const uint32_t> in, uint32_t stride, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) in.load<V>(threadIdx.x * stride);
}

TEST_CASE_FIXTURE(Fixture, "counters: sectors of a warp's load, and bytes that its lanes share") {
  struct Case {
    emulator::Counts counts;
    uint64_t sectors;
    uint64_t bytes;
  };
  const auto load = [&]<typename V>(V, uint32_t stride) {
    return count(1, LAUNCH(load_kernel<V>, in.read_only(), stride, 3));
  };
  const Case cases[] = {
      {load(uint32_t{}, 1), 4, 128}, {load(uint32_t{}, 2), 8, 128}, {load(uint32_t{}, 8), 32, 128},
      {load(uint32_t{}, 0), 1, 4},   {load(uint4{}, 4), 16, 512},   {load(uint4{}, 8), 32, 512},
      {load(uint16_t{}, 1), 4, 64},  // every second half of a word
  };
  constexpr uint64_t kRequests = 3 * kThreads / 32;
  for (const Case& c : cases) {
    CAPTURE(&c - cases);
    CHECK(c.counts.launches == 1);
    CHECK(c.counts.load_requests == kRequests);
    CHECK(c.counts.load_sectors == kRequests * c.sectors);
    CHECK(c.counts.load_bytes == kRequests * c.bytes);
    CHECK(c.counts.constant_bytes == c.counts.load_bytes);
    CHECK(c.counts.constant_sectors == c.counts.load_sectors);
  }
}

// Lanes that are not there load nothing, and others load on two lines.
__global__ void branch_kernel(Global<const uint32_t> in, uint32_t num_loading) {
  if (threadIdx.x >= num_loading) return;
  if (threadIdx.x % 2 == 1) static_cast<void>(in[threadIdx.x]);
  static_cast<void>(in[8 * threadIdx.x]);
}

TEST_CASE_FIXTURE(Fixture, "counters: a request is what the lanes of a warp do on one line") {
  const emulator::Counts counts = count(1, LAUNCH(branch_kernel, in.read_only(), 16));
  CHECK(counts.load_requests == 2);
  CHECK(counts.load_bytes == (8 + 16) * 4);
  CHECK(counts.load_sectors == 2 + 16);
}

__global__ void add_kernel(Global<const uint32_t> in, Global<uint32_t> out, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) out[threadIdx.x] += in.load_read_only<uint32_t>(threadIdx.x);
}

TEST_CASE_FIXTURE(Fixture,
                  "counters: bytes of a kernel or a fill are not constant, and repeated loads count") {
  emulator::Counters counters;
  CHECK(device.launch(1, kThreads, LAUNCH(add_kernel, in.read_only(), out.view(), 1)) == cudaSuccess);
  CHECK(counters.of("add_kernel").constant_bytes == 2 * 4 * kThreads);  // no kernel has written out
  CHECK(device.launch(1, kThreads, LAUNCH(add_kernel, in.read_only(), out.view(), 5)) == cudaSuccess);
  const emulator::Counts both = counters.of("add_kernel");
  CHECK(both.launches == 2);
  CHECK(both.load_bytes == (2 + 10) * 4 * kThreads);
  CHECK(both.constant_bytes == (2 + 5) * 4 * kThreads);
  CHECK(counters.of("other_kernel").launches == 0);
  CHECK(cudaMemsetAsync(in.data, 0, 4 * kThreads / 2, device.stream) == cudaSuccess);
  CHECK(device.launch(1, kThreads, LAUNCH(add_kernel, in.read_only(), out.view(), 1)) == cudaSuccess);
  CHECK(counters.of("add_kernel").constant_bytes == both.constant_bytes + 4 * kThreads / 2);
}

template <typename V>
__global__ void shared_kernel(uint32_t stride) {
  __shared__ Shared<uint32_t, kWords> shared;
  shared.store<V>(threadIdx.x * stride, V{});
}

__global__ void copy_kernel(Global<const uint32_t> in) {
  __shared__ Shared<uint32_t, kWords> shared;
  copy_async(shared, 4 * threadIdx.x, in, 4 * threadIdx.x);
  commit_copies();
  wait_copies<0>();
  sync_block();
  shared.load<uint32_t>(8 * (threadIdx.x % 32));
  shared.load<uint32_t>(threadIdx.x / 32);  // all lanes the same
}

TEST_CASE_FIXTURE(Fixture, "counters: turns of a warp's store to shared memory") {
  struct Case {
    emulator::Counts counts;
    uint64_t turns;
    uint64_t least;
  };
  const auto store = [&]<typename V>(V, uint32_t stride) {
    return count(1, LAUNCH(shared_kernel<V>, stride));
  };
  const Case cases[] = {
      {store(uint32_t{}, 1), 1, 1},   {store(uint32_t{}, 2), 2, 1}, {store(uint32_t{}, 31), 1, 1},
      {store(uint32_t{}, 32), 32, 1}, {store(uint2{}, 2), 2, 2},    {store(uint2{}, 4), 4, 2},
      {store(uint4{}, 4), 4, 4},      {store(uint4{}, 8), 8, 4},    {store(uint4{}, 20), 4, 4},
  };
  for (const Case& c : cases) {
    CAPTURE(&c - cases);
    CHECK(c.counts.shared_turns == 2 * c.turns);
    CHECK(c.counts.least_shared_turns == 2 * c.least);
  }
}

TEST_CASE_FIXTURE(Fixture, "counters: an asynchronous copy loads from one memory and stores to the other") {
  const emulator::Counts counts = count(3, LAUNCH(copy_kernel, in.read_only()));
  constexpr uint64_t kWarps = 3 * kThreads / 32;
  CHECK(counts.load_bytes == kWarps * 512);
  CHECK(counts.load_sectors == kWarps * 16);
  CHECK(counts.shared_turns == kWarps * (4 + 8 + 1));
  CHECK(counts.least_shared_turns == kWarps * (4 + 1 + 1));
}

}  // namespace
}  // namespace runnel
