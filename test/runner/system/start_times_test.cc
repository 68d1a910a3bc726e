#include "runner/system/start_times.h"

#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace std::chrono_literals;

TEST_CASE("start times: each part takes the time since the one before ended") {
  std::chrono::steady_clock::time_point now;
  StartTimes times([&] { return now; });
  now += 1250us;
  times.end("driver");
  now += 2s;
  times.end("weights", "1.0 for packing");
  CHECK(times.text() == "2001.2 ms: driver 1.2, weights 2000.0 (1.0 for packing)");
}

}  // namespace
}  // namespace runnel
