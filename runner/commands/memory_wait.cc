#include "runner/commands/memory_wait.h"

namespace runnel {

bool await_free_bytes(uint64_t bytes, const std::function<uint64_t()>& free_bytes, const Sleep& sleep) {
  for (std::chrono::milliseconds waited{0}; free_bytes() < bytes; waited += kMemoryPoll) {
    if (waited >= kMaxMemoryWait) return false;
    sleep(kMemoryPoll);
  }
  return true;
}

}  // namespace runnel
