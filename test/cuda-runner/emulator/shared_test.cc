// Shared memory: missing barriers, reads of elements that were never written, bounds, and copies that are not
// waited for.
#include "cuda-runner/emulator/shared.h"

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kThreads = 64;

// Reverses the values of a block's threads.
template <bool kBarrier>
__global__ void reverse_kernel(Global<uint32_t> out) {
  __shared__ Shared<uint32_t, kThreads> values;
  values[threadIdx.x] = threadIdx.x;
  if (kBarrier) sync_block();
  out[blockIdx.x * kThreads + threadIdx.x] = values[kThreads - 1 - threadIdx.x];
}

TEST_CASE("shared: a read of what another thread wrote needs a barrier between") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(3 * kThreads);
  CHECK(device.launch(3, kThreads, LAUNCH(reverse_kernel<true>, out.view())) == cudaSuccess);
  CHECK(device.download(out)[0] == kThreads - 1);
  CHECK(device.launch(1, kThreads, LAUNCH(reverse_kernel<false>, out.view())) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "Kernel reverse_kernel<false>"));
  CHECK(says(emulator::last_fault(), "element"));
}

// The sum of 64 values by halves, with a barrier after each step. One barrier may be left out.
__global__ void tree_kernel(Global<uint32_t> out, uint32_t left_out) {
  __shared__ Shared<uint32_t, kThreads> sums;
  sums[threadIdx.x] = threadIdx.x;
  sync_block();
  for (uint32_t half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += static_cast<uint32_t>(sums[threadIdx.x + half]);
    if (half != left_out) sync_block();
  }
  if (threadIdx.x == 0) out[0] = sums[0];
}

TEST_CASE("shared: a tree of sums with one barrier missing is found at each step") {
  for (uint32_t left_out = 0; left_out <= kThreads / 2; left_out = left_out == 0 ? 2 : 2 * left_out) {
    CAPTURE(left_out);
    Emulated device;
    const Array<uint32_t> out = device.allocate<uint32_t>(1);
    const cudaError_t error = device.launch(1, kThreads, LAUNCH(tree_kernel, out.view(), left_out));
    if (left_out == 0) {
      CHECK(error == cudaSuccess);
      CHECK(device.download(out)[0] == kThreads * (kThreads - 1) / 2);
    } else {
      CHECK(error == cudaErrorLaunchFailure);
      CHECK(says(emulator::last_fault(), "without a barrier between"));
    }
  }
}

// Each thread reads an element, and without the barrier writes one that another thread still reads.
template <bool kBarrier>
__global__ void rotate_kernel(Global<uint32_t> out) {
  __shared__ Shared<uint32_t, kThreads> values;
  values[threadIdx.x] = threadIdx.x;
  sync_block();
  const uint32_t next = values[(threadIdx.x + 1) % kThreads];
  if (kBarrier) sync_block();
  values[threadIdx.x] = next;
  sync_block();
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_CASE("shared: a write of what another thread read needs a barrier between") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(kThreads);
  CHECK(device.launch(1, kThreads, LAUNCH(rotate_kernel<true>, out.view())) == cudaSuccess);
  CHECK(device.download(out)[kThreads - 1] == 0);
  CHECK(device.launch(1, kThreads, LAUNCH(rotate_kernel<false>, out.view())) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "which another thread read, without a barrier between"));
}

__global__ void same_element_kernel() {
  __shared__ Shared<uint32_t, 2> values;
  values[threadIdx.x % 2] = 1;
}

TEST_CASE("shared: two writers of one element need a barrier between") {
  Emulated device;
  CHECK(device.launch(1, 2, LAUNCH(same_element_kernel)) == cudaSuccess);
  CHECK(device.launch(1, 3, LAUNCH(same_element_kernel)) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "wrote, without a barrier between"));
}

enum class Between { kNothing, kShuffle, kWarpBarrier };

// The lanes of one warp, or of two, exchange values through shared memory.
template <Between kBetween>
__global__ void neighbours_kernel(Global<uint32_t> out, uint32_t mask) {
  __shared__ Shared<uint32_t, kThreads> values;
  for (uint32_t round = 0; round < 3; ++round) {
    values[threadIdx.x] = threadIdx.x + round;
    if (kBetween == Between::kWarpBarrier) sync_warp();
    if (kBetween == Between::kShuffle) shuffle_xor(round, 1);
    out[threadIdx.x] = values[threadIdx.x ^ mask];
    if (kBetween == Between::kWarpBarrier) sync_warp();
  }
}

TEST_CASE("shared: a warp's barrier orders its lanes and nobody else; a shuffle orders nothing") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(kThreads);
  CHECK(device.launch(1, kThreads, LAUNCH(neighbours_kernel<Between::kWarpBarrier>, out.view(), 1)) ==
        cudaSuccess);
  CHECK(device.download(out)[4] == 5 + 2);
  SUBCASE("of another warp") {
    CHECK(device.launch(1, kThreads, LAUNCH(neighbours_kernel<Between::kWarpBarrier>, out.view(), 32)) ==
          cudaErrorLaunchFailure);
  }
  SUBCASE("no barrier") {
    CHECK(device.launch(1, kThreads, LAUNCH(neighbours_kernel<Between::kNothing>, out.view(), 1)) ==
          cudaErrorLaunchFailure);
  }
  SUBCASE("a shuffle") {
    CHECK(device.launch(1, kThreads, LAUNCH(neighbours_kernel<Between::kShuffle>, out.view(), 1)) ==
          cudaErrorLaunchFailure);
  }
}

// All lanes of a warp read one element. After a barrier of the warp, one of them or a lane of another warp
// writes it.
__global__ void broadcast_kernel(Global<uint32_t> out, uint32_t writer) {
  __shared__ Shared<uint32_t, 1> value;
  if (threadIdx.x == 0) value[0] = 5;
  sync_block();
  if (warp() == 0) out[threadIdx.x] = value[0];
  sync_warp();
  if (threadIdx.x == writer) value[0] = 6;
}

TEST_CASE("shared: several readers of one element are all waited for") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(kThreads);
  CHECK(device.launch(1, kThreads, LAUNCH(broadcast_kernel, out.view(), 3)) == cudaSuccess);
  CHECK(device.launch(1, kThreads, LAUNCH(broadcast_kernel, out.view(), 35)) == cudaErrorLaunchFailure);
}

// Only the first block writes.
__global__ void leftover_kernel(Global<uint32_t> out, bool writes) {
  __shared__ Shared<uint32_t, 32> values;
  if (writes) values[threadIdx.x] = 1;
  sync_block();
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_CASE("shared: values left by an earlier block count as unwritten") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(32);
  CHECK(device.launch(1, 32, LAUNCH(leftover_kernel, out.view(), true)) == cudaSuccess);
  CHECK(device.launch(1, 32, LAUNCH(leftover_kernel, out.view(), false)) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "which this block never wrote"));
}

__global__ void bounds_kernel(uint32_t shift) {
  __shared__ Shared<float, 32> values;
  values[threadIdx.x + shift] = 1.0f;
}
__global__ void alignment_kernel(Global<uint32_t> out, uint32_t first) {
  __shared__ Shared<int8_t, 64> bytes;
  bytes[threadIdx.x] = static_cast<int8_t>(threadIdx.x);
  sync_block();
  out[threadIdx.x] = bytes.load<uint32_t>(4 * (threadIdx.x / 8) + first);
}

TEST_CASE("shared: bounds and alignment") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(64);
  CHECK(device.launch(1, 32, LAUNCH(bounds_kernel, 0)) == cudaSuccess);
  CHECK(device.launch(1, 64, LAUNCH(alignment_kernel, out.view(), 0)) == cudaSuccess);
  CHECK(device.download(out)[63] == 0x1f1e1d1c);
  SUBCASE("beyond its end") {
    CHECK(device.launch(1, 32, LAUNCH(bounds_kernel, 1)) == cudaErrorLaunchFailure);
    CHECK(
        says(emulator::last_fault(),
             "writes 4 bytes from element 32 on of shared memory of 32 elements of 4 bytes, beyond its end"));
  }
  SUBCASE("misaligned") {
    CHECK(device.launch(1, 64, LAUNCH(alignment_kernel, out.view(), 1)) == cudaErrorMisalignedAddress);
  }
}

constexpr uint32_t kStages = 4;

// Adds up stages of 32 * 16 bytes. Each stage is copied while the one before is added. kWait and kBarrier say
// whether the copies are waited for and whether there are barriers.
template <bool kWait, bool kBarrier>
__global__ void pipeline_kernel(Global<const uint32_t> in, Global<uint32_t> out) {
  __shared__ Shared<uint32_t, 2 * 128> buffers;
  const uint32_t mine = 4 * threadIdx.x;
  copy_async(buffers, mine, in, mine);
  commit_copies();
  uint32_t sum = 0;
  for (uint32_t stage = 0; stage < kStages; ++stage) {
    if (stage + 1 < kStages) copy_async(buffers, (stage + 1) % 2 * 128 + mine, in, (stage + 1) * 128 + mine);
    commit_copies();
    if (kWait) wait_copies<1>();
    if (kBarrier) sync_block();
    for (uint32_t i = 0; i < 4; ++i) sum += buffers[stage % 2 * 128 + (mine + i * 33) % 128];
    sync_block();
  }
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}

TEST_CASE(
    "shared: an asynchronous copy is there when it was waited for, and a barrier says so to the others") {
  Emulated device;
  const Array<uint32_t> in = device.upload(std::vector<uint32_t>(kStages * 128, 3));
  const Array<uint32_t> out = device.allocate<uint32_t>(64);
  CHECK(device.launch(2, 32, LAUNCH(pipeline_kernel<true, true>, in.read_only(), out.view())) == cudaSuccess);
  CHECK(device.download(out) == std::vector<uint32_t>(64, 3 * 4 * kStages));
  SUBCASE("not waited for") {
    CHECK(device.launch(1, 32, LAUNCH(pipeline_kernel<false, true>, in.read_only(), out.view())) ==
          cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "copies and has not waited"));
  }
  SUBCASE("no barrier") {
    CHECK(device.launch(1, 32, LAUNCH(pipeline_kernel<true, false>, in.read_only(), out.view())) ==
          cudaErrorLaunchFailure);
  }
}

__global__ void misaligned_copy_kernel(Global<const uint32_t> in, uint32_t from, uint32_t to) {
  __shared__ Shared<uint32_t, 8> values;
  copy_async(values, to, in, from);
  commit_copies();
  wait_copies<0>();
}

TEST_CASE("shared: both ends of a copy are aligned") {
  Emulated device;
  const Array<uint32_t> in = device.upload(std::vector<uint32_t>(8, 3));
  CHECK(device.launch(1, 1, LAUNCH(misaligned_copy_kernel, in.read_only(), 4, 4)) == cudaSuccess);
  SUBCASE("from") {
    CHECK(device.launch(1, 1, LAUNCH(misaligned_copy_kernel, in.read_only(), 2, 4)) ==
          cudaErrorMisalignedAddress);
  }
  SUBCASE("to") {
    CHECK(device.launch(1, 1, LAUNCH(misaligned_copy_kernel, in.read_only(), 4, 2)) ==
          cudaErrorMisalignedAddress);
  }
}

struct SomeMemory {
  static constexpr uint32_t kBytes = 256;
  Shared<uint32_t, 64> words;
};

__global__ void dynamic_kernel(Global<uint32_t> out) {
  auto& memory = dynamic_shared<SomeMemory>();
  memory.words[threadIdx.x] = threadIdx.x;
  sync_block();
  const uint32_t word = memory.words[63 - threadIdx.x];
  out[threadIdx.x] = word;
}

TEST_CASE("shared: dynamic memory is what the launch asks for, with the same checks") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(64);
  auto config = device.config(1, 64);
  config.dynamicSmemBytes = SomeMemory::kBytes;
  CHECK(cudaLaunchKernelEx(&config, dynamic_kernel, out.view()) == cudaSuccess);
  CHECK(device.synchronize() == cudaSuccess);
  CHECK(device.download(out)[5] == 58);
  config.dynamicSmemBytes = SomeMemory::kBytes - 1;
  CHECK(cudaLaunchKernelEx(&config, dynamic_kernel, out.view()) == cudaSuccess);
  CHECK(device.synchronize() == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "uses 256 bytes of dynamic shared memory; it was launched with 255"));
}

}  // namespace
}  // namespace runnel
