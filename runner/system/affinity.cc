#include "runner/system/affinity.h"

#include <sched.h>

#include <cerrno>
#include <cstring>

#include "runner/check.h"

namespace runnel {
namespace {

// Sets of more processors than a cpu_set_t holds.
using ProcessorSets = std::vector<cpu_set_t>;

size_t bytes_of(const ProcessorSets& sets) {
  return sets.size() * sizeof(cpu_set_t);
}

}  // namespace

std::vector<uint32_t> allowed_processors() {
  // The call fails if the set is smaller than the kernel's own.
  for (uint32_t num_processors = CPU_SETSIZE; num_processors <= kMaxProcessors; num_processors *= 2) {
    ProcessorSets sets(num_processors / CPU_SETSIZE);
    if (sched_getaffinity(0, bytes_of(sets), sets.data()) != 0) continue;
    std::vector<uint32_t> allowed;
    for (uint32_t processor = 0; processor < num_processors; ++processor)
      if (CPU_ISSET_S(processor, bytes_of(sets), sets.data())) allowed.push_back(processor);
    return allowed;
  }
  return {};
}

Result<void> bind_thread(std::span<const uint32_t> processors) {
  CHECK(!processors.empty() && processors.back() < kMaxProcessors);
  ProcessorSets sets(processors.back() / CPU_SETSIZE + 1);
  for (const uint32_t processor : processors) CPU_SET_S(processor, bytes_of(sets), sets.data());
  if (sched_setaffinity(0, bytes_of(sets), sets.data()) == 0) return {};
  return Error{ExitCode::kSystem, std::strerror(errno)};
}

}  // namespace runnel
