#include "runner/system/thread_time.h"

#include <ctime>

#include "runner/check.h"

namespace runnel {

std::chrono::nanoseconds thread_time() {
  timespec now;
  CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace runnel
