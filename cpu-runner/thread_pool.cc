#include "cpu-runner/thread_pool.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "runner/check.h"
#include "runner/system/processors.h"
#include "runner/system/spin.h"

namespace runnel {
namespace {

// Returns when word is no longer value. After a bounded spin it waits in the kernel.
void wait_while(const std::atomic<uint32_t>& word, uint32_t value) {
  if (spin_until([&] { return word.load(std::memory_order_acquire) != value; })) return;
  word.wait(value, std::memory_order_acquire);
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(uint32_t num_threads) {
  if (num_threads > kMaxThreads) {
    return Error{ExitCode::kUsage, "The number of threads is " + std::to_string(num_threads) + "; at most " +
                                       std::to_string(kMaxThreads) + " are supported."};
  }
  if (num_threads == 0) num_threads = std::clamp(usable_processors(), 1u, kMaxThreads);
  std::unique_ptr<ThreadPool> pool(new ThreadPool());
  try {
    while (pool->num_threads() < num_threads)
      pool->workers_.emplace_back([raw = pool.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return Error{ExitCode::kSystem, "Thread " + std::to_string(pool->num_threads() + 1) + " of " +
                                        std::to_string(num_threads) + " cannot be started: " + error.what() +
                                        "."};
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  loop_number_.fetch_add(1);
  loop_number_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(uint32_t num_chunks, ChunkFn fn, const void* context) {
  if (num_chunks == 0) return;
  if (num_chunks == 1 || workers_.empty()) {
    for (uint32_t chunk = 0; chunk < num_chunks; ++chunk) fn(context, chunk);
    return;
  }
  CHECK(unfinished_chunks_.load(std::memory_order_relaxed) == 0);
  fn_ = fn;
  context_ = context;
  num_chunks_ = num_chunks;
  unfinished_chunks_.store(num_chunks, std::memory_order_relaxed);
  const uint64_t number = loop_number_.load(std::memory_order_relaxed) + 1;
  ticket_.store((number << 32) | num_chunks, std::memory_order_release);
  // Sequentially consistent, like every write that a sleeping thread waits for: notify_all looks for sleepers
  // after the write, and the two must not be reordered.
  loop_number_.store(static_cast<uint32_t>(number));
  loop_number_.notify_all();

  take_chunks();
  for (uint32_t left; (left = unfinished_chunks_.load(std::memory_order_acquire)) != 0;) {
    wait_while(unfinished_chunks_, left);
  }
}

void ThreadPool::take_chunks() {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(ticket) != 0) {
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acquire)) continue;
    // This thread has taken the chunk, so the loop cannot end before it is done, and fn_ and context_ stay
    // valid.
    fn_(context_, num_chunks_ - static_cast<uint32_t>(ticket));
    if (unfinished_chunks_.fetch_sub(1) == 1) unfinished_chunks_.notify_all();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work() {
  uint32_t seen = 0;
  while (true) {
    wait_while(loop_number_, seen);
    seen = loop_number_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_chunks();
  }
}

}  // namespace runnel
