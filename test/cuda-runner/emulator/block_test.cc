// Threads of a block: barriers, shuffles, and what is wrong with them.
#include "cuda-runner/emulator/block.h"

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
  device.upload(values);
  device.allocate<float>(kBlocks);
  const Global<const float> in(static_cast<const float*>(device.pointers[0]), values.size());
  const Global<float> out(static_cast<float*>(device.pointers[1]), kBlocks);
  const auto config = device.config(kBlocks, kThreads);
  CHECK(cudaLaunchKernelEx(&config, sum_kernel, in, out) == cudaSuccess);
  CHECK(device.download<float>(1, kBlocks) == expected);
}

}  // namespace
}  // namespace runnel
