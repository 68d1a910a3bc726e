#include "cuda-runner/packing_threads.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kNumTiles = 500;

TEST_CASE("packing threads: what is waited for is packed, once, and what is not allowed is not begun") {
  for (const uint32_t num_threads : {1u, 3u, kMaxPackingThreads}) {
    CAPTURE(num_threads);
    const Result<std::unique_ptr<PackingThreads>> threads = PackingThreads::start(num_threads);
    REQUIRE(threads.ok());
    for (int matrix = 0; matrix < 20; ++matrix) {
      std::vector<uint32_t> times(kNumTiles, 0);  // plain numbers: waiting makes them visible
      std::atomic<uint32_t> allowed = 0;
      std::atomic<bool> was_early = false;
      (*threads)->begin(kNumTiles, [&](uint32_t tile) {
        if (tile >= allowed) was_early = true;
        ++times[tile];
      });
      for (uint32_t end = 0; end < kNumTiles;) {
        allowed = end = std::min(end + 1 + 37 * static_cast<uint32_t>(matrix), kNumTiles);
        (*threads)->allow(end);
        (*threads)->wait_for(end / 2);
        CHECK(std::all_of(times.begin(), times.begin() + end / 2, [](uint32_t count) { return count == 1; }));
      }
      (*threads)->wait_for(kNumTiles);
      CHECK(std::ranges::all_of(times, [](uint32_t count) { return count == 1; }));
      CHECK_FALSE(was_early);
    }
  }
}

TEST_CASE("packing threads: they end in the middle of nothing, with tiles that were never allowed") {
  const Result<std::unique_ptr<PackingThreads>> threads = PackingThreads::start(2);
  REQUIRE(threads.ok());
  (*threads)->begin(3, [](uint32_t) {});
}

}  // namespace
}  // namespace runnel
