#include "runner/system/deep_thread.h"

#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "test/unit_test.h"

namespace runnel {
namespace {

int niceness() {
  return getpriority(PRIO_PROCESS, 0);  // of the thread
}

TEST_CASE("deep thread: a lowered priority is below that of the process, whatever the process was given") {
  int given = 0;
  int lowered = 0;
  std::thread([&] {
    REQUIRE(setpriority(PRIO_PROCESS, 0, std::min(19, niceness() + 3)) == 0);
    given = niceness();
    lower_priority();
    lowered = niceness();
  }).join();
  CHECK(lowered == std::min(19, given + 10));
}

}  // namespace
}  // namespace runnel
