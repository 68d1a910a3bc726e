#include "cpu-runner/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "runner/system/affinity.h"
#include "test/cpu-runner/threads_on_nodes.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using test::pool_on_nodes;

constexpr std::chrono::seconds kPatience{30};

// Random parts of so many chunks, of which some are empty.
std::vector<uint32_t> random_ends(uint32_t num_chunks, uint32_t num_nodes, std::mt19937& rng) {
  std::vector<uint32_t> ends;
  for (uint32_t node = 1; node < num_nodes; ++node) ends.push_back(rng() % (num_chunks + 1));
  std::ranges::sort(ends);
  ends.push_back(num_chunks);
  return ends;
}

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
    in_time &= both_here.wait_for(lock, kPatience, [&] { return ids.size() == 2; });
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

TEST_CASE("each chunk runs once with threads of several nodes, and none is taken too early from another") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  for (const uint32_t num_nodes : {2u, 4u}) {
    for (uint32_t num_threads = 1; num_threads <= 8; ++num_threads) {
      CAPTURE(num_nodes);
      CAPTURE(num_threads);
      const auto pool = pool_on_nodes(num_threads, num_nodes);
      CHECK(pool->num_threads() == num_threads);
      CHECK(pool->num_nodes() == std::min(num_nodes, num_threads));
      uint64_t num_loops = 0;
      const auto check = [&](uint32_t num_chunks, const auto& loop) {
        std::vector<std::atomic<int>> count(num_chunks);
        loop(count);
        for (const auto& times : count) REQUIRE(times.load() == 1);
        ++num_loops;
      };
      for (uint32_t i = 0; i < 150; ++i) {
        const uint32_t num_chunks = i < 50 ? i : rng() % 1001;
        CAPTURE(num_chunks);
        check(num_chunks, [&](auto& count) {
          pool->parallel_for(num_chunks, [&](uint32_t chunk) { count[chunk].fetch_add(1); });
        });
        const std::vector<uint32_t> ends = random_ends(num_chunks, pool->num_nodes(), rng);
        check(num_chunks, [&](auto& count) {
          pool->parallel_for_nodes(ends, [&](uint32_t chunk, uint32_t) { count[chunk].fetch_add(1); });
        });
        check(num_chunks, [&](auto& count) {
          pool->run_on_nodes(ends, [&](uint32_t chunk, uint32_t) { count[chunk].fetch_add(1); });
        });
      }
      CHECK(pool->counts().num_too_early == 0);
      if (pool->num_nodes() > 1) CHECK(pool->counts().num_chunks > num_loops);
    }
  }
}

TEST_CASE("each thread is of one node, and a chunk that is for its node alone is computed there") {
  std::mt19937 rng(5);
  for (const auto& [num_threads, num_nodes] : {std::pair(2u, 2u), std::pair(5u, 2u), std::pair(7u, 4u)}) {
    CAPTURE(num_threads);
    CAPTURE(num_nodes);
    const auto pool = pool_on_nodes(num_threads, num_nodes);
    std::mutex mutex;
    std::map<std::thread::id, std::set<uint32_t>> nodes_of_threads;
    bool is_own = true;
    for (int round = 0; round < 100; ++round) {
      const std::vector<uint32_t> ends = random_ends(40, num_nodes, rng);
      pool->parallel_for_nodes(ends, [&](uint32_t, uint32_t node) {
        const std::lock_guard lock(mutex);
        nodes_of_threads[std::this_thread::get_id()].insert(node);
      });
      pool->run_on_nodes(ends, [&](uint32_t chunk, uint32_t node) {
        const std::lock_guard lock(mutex);
        nodes_of_threads[std::this_thread::get_id()].insert(node);
        is_own &= chunk < ends[node] && (node == 0 || chunk >= ends[node - 1]);
      });
      std::vector<std::thread::id> threads(num_nodes);
      pool->for_each_node([&](uint32_t node) { threads[node] = std::this_thread::get_id(); });
      for (uint32_t node = 0; node < num_nodes; ++node) {
        const std::lock_guard lock(mutex);
        nodes_of_threads[threads[node]].insert(node);
      }
    }
    CHECK(is_own);
    nodes_of_threads[std::this_thread::get_id()].insert(0);
    for (const auto& [thread, nodes] : nodes_of_threads) CHECK(nodes.size() == 1);
    CHECK(nodes_of_threads.size() <= num_threads);
  }
}

TEST_CASE("threads whose node has no chunks left compute those of nodes that are held up") {
  for (const uint32_t num_nodes : {2u, 4u}) {
    CAPTURE(num_nodes);
    const auto pool = pool_on_nodes(num_nodes, num_nodes);
    constexpr uint32_t kChunks = 100;
    std::mutex mutex;
    std::condition_variable one_more;
    uint32_t num_done = 0;
    bool in_time = true;
    std::vector<uint32_t> ends;
    for (uint32_t node = 1; node <= num_nodes; ++node) ends.push_back(kChunks * node / num_nodes);
    // A thread that is not of the last node holds its first chunk until all others are done.
    std::vector<uint32_t> num_of_node(num_nodes);
    pool->parallel_for_nodes(ends, [&](uint32_t, uint32_t node) {
      std::unique_lock lock(mutex);
      ++num_of_node[node];
      if (node + 1 < num_nodes)
        in_time &= one_more.wait_for(lock, kPatience, [&] { return num_done > kChunks - num_nodes; });
      ++num_done;
      one_more.notify_all();
    });
    CHECK(in_time);
    CHECK(num_done == kChunks);
    const uint32_t least = kChunks - (num_nodes - 1);
    CHECK(num_of_node.back() >= least);
    const ThreadPool::Counts counts = pool->counts();
    CHECK(counts.num_chunks == kChunks);
    CHECK(counts.num_of_others >= least - kChunks / num_nodes);
    CHECK(counts.num_too_early == 0);
  }
}

TEST_CASE("threads are bound to the processors of their node, and the caller as long as there is a pool") {
  const std::vector<uint32_t> before = allowed_processors();
  REQUIRE_FALSE(before.empty());
  const std::vector<NodeThreads> nodes = {{1, {before.front()}}, {2, {before.back()}}};
  {
    const auto pool = *ThreadPool::create(3, nodes);
    std::vector<std::vector<uint32_t>> bound(2);
    pool->for_each_node([&](uint32_t node) { bound[node] = allowed_processors(); });
    for (size_t node = 0; node < 2; ++node) CHECK(bound[node] == nodes[node].processors);
    CHECK(allowed_processors() == nodes[0].processors);
  }
  CHECK(allowed_processors() == before);
  // No machine has this processor, so the system refuses.
  const auto unbound = *ThreadPool::create(2, {{1, {before.front()}}, {1, {kMaxProcessors - 1}}});
  CHECK(allowed_processors() == before);
  std::atomic<int> count{0};
  unbound->parallel_for(64, [&](uint32_t) { count.fetch_add(1); });
  CHECK(count.load() == 64);
}

}  // namespace
}  // namespace runnel
