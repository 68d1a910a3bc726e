#include "cpu-runner/thread_pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <vector>

#include "test/unit_test.h"

namespace runnel {
namespace {

TEST_CASE("each chunk runs once, whatever the number of threads") {
  for (const uint32_t num_threads : {1u, 2u, 3u, 8u}) {
    const auto pool = ThreadPool::create(num_threads);
    REQUIRE(pool.ok());
    CHECK((*pool)->num_threads() == num_threads);
    for (uint32_t num_chunks = 0; num_chunks < 300; ++num_chunks) {
      std::vector<std::atomic<int>> count(num_chunks);
      (*pool)->parallel_for(num_chunks, [&](uint32_t chunk) { count[chunk].fetch_add(1); });
      for (const auto& times : count) REQUIRE(times.load() == 1);
    }
  }
}

TEST_CASE("writes of chunks are visible after the loop, over many short loops") {
  const auto pool = ThreadPool::create(4);
  std::vector<uint32_t> values(16);  // not atomic, so the pool must synchronise
  for (uint32_t round = 0; round < 20'000; ++round) {
    (*pool)->parallel_for(16, [&](uint32_t chunk) { values[chunk] += chunk + round; });
  }
  for (uint32_t chunk = 0; chunk < 16; ++chunk) CHECK(values[chunk] == 20'000u * chunk + 19'999u * 10'000u);
}

TEST_CASE("several threads take part in one loop") {
  const auto pool = ThreadPool::create(2);
  std::mutex mutex;
  std::condition_variable both_here;
  std::set<std::thread::id> ids;
  bool in_time = true;
  // Two chunks that wait for each other can end only if two threads run them.
  (*pool)->parallel_for(2, [&](uint32_t) {
    std::unique_lock lock(mutex);
    ids.insert(std::this_thread::get_id());
    both_here.notify_all();
    in_time &= both_here.wait_for(lock, std::chrono::seconds(30), [&] { return ids.size() == 2; });
  });
  CHECK(in_time);
}

TEST_CASE("threads that sleep wake up for the next loop") {
  const auto pool = ThreadPool::create(3);
  for (int round = 0; round < 50; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));  // much longer than threads spin
    std::atomic<int> count{0};
    (*pool)->parallel_for(64, [&](uint32_t) { count.fetch_add(1); });
    REQUIRE(count.load() == 64);
  }
}

TEST_CASE("a number of threads beyond the limit is refused with the number") {
  const auto pool = ThreadPool::create(100'000);
  REQUIRE_FALSE(pool.ok());
  CHECK(pool.error().exit_code == ExitCode::kUsage);
  CHECK(pool.error().message == "The number of threads is 100000; at most 256 are supported.");
}

TEST_CASE("without a number there are as many threads as the process may use") {
  const auto pool = ThreadPool::create(0);
  REQUIRE(pool.ok());
  CHECK((*pool)->num_threads() >= 1);
}

}  // namespace
}  // namespace runnel
