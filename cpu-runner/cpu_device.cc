#include "cpu-runner/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runner/system/memory.h"

namespace runnel {

std::string CpuDevice::name() const {
  const uint32_t count = executor_.threads.num_threads();
  const uint32_t num_nodes = executor_.threads.num_nodes();
  return "cpu, " + std::string(executor_.kernels.name) + ", " + std::to_string(count) +
         (count == 1 ? " thread" : " threads") +
         (num_nodes == 1 ? "" : " on " + std::to_string(num_nodes) + " nodes") +
         (num_ranks_ == 1 ? "" : " in each of " + std::to_string(num_ranks_) + " ranks");
}

std::vector<double> CpuDevice::seconds_of(const std::function<void()>& work, uint32_t num_times) {
  using Clock = std::chrono::steady_clock;
  work();
  std::vector<double> seconds;
  for (uint32_t i = 0; i < num_times; ++i) {
    const Clock::time_point begin = Clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return seconds;
}

Result<std::vector<double>> CpuDevice::seconds_of_copy(uint64_t bytes, uint32_t num_times) {
  const Result<Memory> from = Memory::allocate(bytes, "the copy benchmark");
  if (!from) return from.error();
  const Result<Memory> to = Memory::allocate(bytes, "the copy benchmark");
  if (!to) return to.error();
  // Without a write, all pages would be one page of zeros, and reading them would be too fast.
  std::memset(from->data(), 1, bytes);
  constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
  const auto num_chunks = static_cast<uint32_t>((bytes + kChunkBytes - 1) / kChunkBytes);
  const auto copy = [&](uint32_t chunk) {
    const uint64_t begin = chunk * kChunkBytes;
    std::memcpy(to->data() + begin, from->data() + begin, std::min(kChunkBytes, bytes - begin));
  };
  return seconds_of([&] { executor_.threads.parallel_for(num_chunks, copy); }, num_times);
}

}  // namespace runnel
