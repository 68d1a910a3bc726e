// Blocks that arrive at a counter, of which the last sees what the others wrote, and may write what they
// read.
#include "cuda-runner/emulator/arrivals.h"

#include <algorithm>

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kThreads = 64;
constexpr uint32_t kBlocks = 5;

enum class Reader { kLast, kAll };

// Groups of blocks, each with a counter: the last block of a group adds up what the blocks wrote. With
// Reader::kAll the others read what the first one wrote.
__global__ void add_kernel(Global<uint32_t> values, Global<uint32_t> counters, Global<uint32_t> sums,
                           Reader reader, uint32_t count) {
  const uint32_t group = blockIdx.y;
  const uint32_t first = group * gridDim.x;
  if (threadIdx.x == kThreads - 1) values[first + blockIdx.x] = 1 + blockIdx.x;
  const bool is_last = arrives_last(counters, group, count);
  if (!is_last && reader == Reader::kLast) return;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < (is_last ? gridDim.x : 1); ++i) sum += values[first + i];
  sums[group * kThreads + threadIdx.x] = sum;
}

struct Groups {
  static constexpr uint32_t kGroups = 3;

  explicit Groups(uint64_t seed = 1) : device({.finds_races = true, .seed = seed}) {}

  cudaError_t launch(Reader reader, uint32_t count = kBlocks) {
    return device.launch(dim3(kBlocks, kGroups), kThreads,
                         LAUNCH(add_kernel, values.view(), counters.view(), sums.view(), reader, count));
  }

  Emulated device;
  Array<uint32_t> values = device.upload(std::vector<uint32_t>(kBlocks * kGroups));
  Array<uint32_t> counters = device.upload(std::vector<uint32_t>(kGroups));
  Array<uint32_t> sums = device.upload(std::vector<uint32_t>(kThreads * kGroups));
};

TEST_CASE_FIXTURE(Groups, "arrivals: the last block sees what all wrote, and the counter is 0 again") {
  for (int i = 0; i < 3; ++i) {
    CHECK(launch(Reader::kLast) == cudaSuccess);
    CHECK(std::ranges::all_of(device.download(sums), [](uint32_t sum) { return sum == 15; }));
    CHECK(device.download(counters) == std::vector<uint32_t>(kGroups));
  }
}

// Calls launch, which must fail, on devices that run blocks in different orders. Returns whether a block read
// what another one had written, and not the other way round.
template <typename Launch>
bool reads_what_another_wrote(const Launch& launch) {
  bool is_found = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Groups groups(seed);
    CHECK(launch(groups) == cudaErrorLaunchFailure);
    is_found |= says(emulator::last_fault(), "which another block of this launch wrote");
  }
  return is_found;
}

TEST_CASE("arrivals: a block that is not the last sees nothing of the others") {
  CHECK(reads_what_another_wrote([](Groups& groups) { return groups.launch(Reader::kAll); }));
}

TEST_CASE_FIXTURE(Groups, "arrivals: more blocks than are counted are reported") {
  counters = device.upload(std::vector<uint32_t>(kGroups, kBlocks));
  CHECK(launch(Reader::kLast) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "counts block 6 of 5 at element"));
}

// The first block does not arrive where the others do, and the last of these reads what it wrote.
__global__ void stranger_kernel(Global<uint32_t> values, Global<uint32_t> counters, Global<uint32_t> out) {
  if (threadIdx.x == 0) values[blockIdx.x] = 7 + blockIdx.x;
  if (!arrives_last(counters, blockIdx.x == 0 ? 0 : 1, blockIdx.x == 0 ? 1 : gridDim.x - 1)) return;
  if (blockIdx.x != 0) out[threadIdx.x] = values[0];
}

TEST_CASE("arrivals: the last block sees nothing of a block that was counted elsewhere") {
  CHECK(reads_what_another_wrote([](Groups& groups) {
    return groups.device.launch(
        kBlocks, kThreads,
        LAUNCH(stranger_kernel, groups.values.view(), groups.counters.view(), groups.sums.view()));
  }));
}

// All blocks read one value, and the last of those that are counted writes it. Block 1 is not counted unless
// `all` are.
__global__ void replace_kernel(Global<uint32_t> values, Global<uint32_t> counters, Global<uint32_t> out,
                               bool all) {
  const uint32_t value = values[0];
  out[blockIdx.x * kThreads + threadIdx.x] = value;
  if (!all && blockIdx.x == 1) {
    sync_block();
    return;
  }
  if (arrives_last(counters, 0, gridDim.x - (all ? 0 : 1)) && threadIdx.x == 0) values[0] = value + 1;
}

TEST_CASE("arrivals: the last block may write what the others read, if all of these are counted") {
  constexpr uint32_t kReaders = 3;  // as many as the sums have room for
  bool is_found = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Groups groups(seed);
    const auto launch = [&](bool all) {
      return groups.device.launch(
          kReaders, kThreads,
          LAUNCH(replace_kernel, groups.values.view(), groups.counters.view(), groups.sums.view(), all));
    };
    CHECK(launch(true) == cudaSuccess);
    CHECK(launch(true) == cudaSuccess);
    CHECK(groups.device.download(groups.values)[0] == 2);
    CHECK(launch(false) == cudaErrorLaunchFailure);
    is_found |= says(emulator::last_fault(), "which another block of this launch read");
  }
  CHECK(is_found);
}

__global__ void divergent_arrival_kernel(Global<uint32_t> counters) {
  if (threadIdx.x != 0) arrives_last(counters, 0, 1);
}

TEST_CASE_FIXTURE(Groups, "arrivals: the whole block must arrive") {
  CHECK(device.launch(1, kThreads, LAUNCH(divergent_arrival_kernel, counters.view())) ==
        cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "63 threads wait in arrives_last()"));
}

}  // namespace
}  // namespace runnel
