#include "runner/commands/memory_wait.h"

#include "test/unit_test.h"

namespace runnel {
namespace {

struct Waited {
  bool is_free;
  std::chrono::milliseconds time;
};

// The driver frees some memory whenever somebody waits.
Waited wait_for(uint64_t bytes, uint64_t freed_each_time) {
  uint64_t free_bytes = 0;
  std::chrono::milliseconds time{0};
  const bool is_free = await_free_bytes(
      bytes, [&] { return free_bytes; },
      [&](std::chrono::milliseconds slept) {
        time += slept;
        free_bytes += freed_each_time;
      });
  return {is_free, time};
}

TEST_CASE("memory wait: it ends as soon as enough is free") {
  CHECK(wait_for(0, 0).time.count() == 0);
  const Waited waited = wait_for(1000, 400);
  CHECK(waited.is_free);
  CHECK(waited.time == 3 * kMemoryPoll);
}

TEST_CASE("memory wait: memory that is not freed is not waited for longer than a limit") {
  const Waited waited = wait_for(1000, 0);
  CHECK_FALSE(waited.is_free);
  CHECK(waited.time == kMaxMemoryWait);
}

}  // namespace
}  // namespace runnel
