#include "cpu-runner/thread_pool.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "runner/check.h"
#include "runner/system/affinity.h"
#include "runner/system/processors.h"
#include "runner/system/spin.h"

namespace runnel {
namespace {

// The parts of a ticket, see ThreadPool::Node.
constexpr uint32_t kOwnNodeOnly = 1u << 31;

constexpr uint64_t ticket_of(uint32_t loop, uint32_t chunks_and_bit) {
  return uint64_t{loop} << 32 | chunks_and_bit;
}
constexpr uint32_t loop_of(uint64_t ticket) {
  return static_cast<uint32_t>(ticket >> 32);
}
constexpr uint32_t left_of(uint64_t ticket) {
  return static_cast<uint32_t>(ticket) & ~kOwnNodeOnly;
}

// Returns when word is no longer value. After a bounded spin it waits in the kernel.
void wait_while(const std::atomic<uint32_t>& word, uint32_t value) {
  if (spin_until([&] { return word.load(std::memory_order_acquire) != value; })) return;
  word.wait(value, std::memory_order_acquire);
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(uint32_t num_threads, std::vector<NodeThreads> nodes) {
  if (num_threads > kMaxThreads) {
    return Error{ExitCode::kUsage, "The number of threads is " + std::to_string(num_threads) + "; at most " +
                                       std::to_string(kMaxThreads) + " are supported."};
  }
  if (num_threads == 0) num_threads = std::clamp(usable_cores(), 1u, kMaxThreads);
  if (nodes.empty()) nodes.push_back({num_threads, {}});
  std::unique_ptr<ThreadPool> pool(new ThreadPool(nodes));
  CHECK(pool->num_threads() == num_threads);
  if (const auto started = pool->start_threads(nodes); !started) return started.error();
  return pool;
}

ThreadPool::ThreadPool(std::span<const NodeThreads> nodes) : nodes_(nodes.size()), ends_(nodes.size()) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    CHECK(nodes[i].num_threads > 0);
    nodes_[i].num_threads = nodes[i].num_threads;
    nodes_[i].num_threads_before = num_threads_;
    num_threads_ += nodes[i].num_threads;
    one_each_.push_back(static_cast<uint32_t>(i) + 1);
  }
}

// A thread is bound as the thread that starts it is. The first node comes last, so that the caller stays
// bound to its processors.
Result<void> ThreadPool::start_threads(std::span<const NodeThreads> nodes) {
  try {
    bool can_bind = true;
    for (uint32_t node = num_nodes(); node-- > 0;) {
      can_bind = can_bind && bind_caller(nodes[node].processors);
      const uint32_t num_workers = nodes[node].num_threads - (node == 0 ? 1 : 0);
      for (uint32_t i = 0; i < num_workers; ++i) workers_.emplace_back([this, node] { work(node); });
    }
  } catch (const std::system_error& error) {
    return Error{ExitCode::kSystem, "Thread " + std::to_string(workers_.size() + 2) + " of " +
                                        std::to_string(num_threads_) + " cannot be started: " + error.what() +
                                        "."};
  }
  return {};
}

// Returns false, with the caller bound as before, if the system refuses.
bool ThreadPool::bind_caller(std::span<const uint32_t> processors) {
  if (processors.empty()) return true;
  if (callers_processors_.empty()) callers_processors_ = allowed_processors();
  const Result<void> bound = bind_thread(processors);
  if (bound) return true;
  std::fprintf(stderr, "Threads are not bound to the processors of their NUMA nodes: %s.\n",
               bound.error().message.c_str());
  if (!callers_processors_.empty()) (void)bind_thread(callers_processors_);
  return false;
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  loop_number_.fetch_add(1);
  loop_number_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  if (!callers_processors_.empty()) (void)bind_thread(callers_processors_);
}

std::span<const uint32_t> ThreadPool::in_proportion(uint32_t num_chunks) {
  for (size_t i = 0; i + 1 < nodes_.size(); ++i) {
    const uint64_t num_threads_until = nodes_[i + 1].num_threads_before;
    ends_[i] = static_cast<uint32_t>(num_chunks * num_threads_until / num_threads_);
  }
  ends_.back() = num_chunks;
  return ends_;
}

void ThreadPool::run(std::span<const uint32_t> ends, Takers takers, ChunkFn fn, const void* context) {
  CHECK(ends.size() == nodes_.size());
  const uint32_t num_chunks = ends.back();
  const bool may_be_callers = takers == Takers::kAll || ends.front() == num_chunks;
  if (workers_.empty() || (num_chunks <= 1 && may_be_callers)) {
    for (uint32_t chunk = 0; chunk < num_chunks; ++chunk) fn(context, chunk, /*node=*/0);
    return;
  }
  CHECK(num_chunks < kOwnNodeOnly);
  for (const Node& node : nodes_) CHECK(node.unfinished_chunks.load(std::memory_order_relaxed) == 0);
  fn_ = fn;
  context_ = context;
  num_chunks_ += num_chunks;
  const uint32_t number = loop_number_.load(std::memory_order_relaxed) + 1;
  uint32_t begin = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const uint32_t count = ends[i] - begin;
    node.end = begin = ends[i];
    node.unfinished_chunks.store(count, std::memory_order_relaxed);
    node.ticket.store(ticket_of(number, count | (takers == Takers::kAll ? 0 : kOwnNodeOnly)),
                      std::memory_order_release);
  }
  // Sequentially consistent, like every write that a sleeping thread waits for: notify_all looks for sleepers
  // after the write, and the two must not be reordered.
  loop_number_.store(number);
  loop_number_.notify_all();

  take_chunks(0);
  for (const Node& node : nodes_) {
    for (uint32_t left; (left = node.unfinished_chunks.load(std::memory_order_acquire)) != 0;)
      wait_while(node.unfinished_chunks, left);
  }
}

void ThreadPool::take_chunks(uint32_t own_node) {
  const uint64_t own = take_chunks_of(nodes_[own_node], own_node, [](uint64_t) { return true; });
  // This loop has no chunks of the thread's node left; of a loop that begins meanwhile there are some.
  const auto is_of_this_loop = [&](uint64_t ticket) {
    return loop_of(ticket) == loop_of(own) && (ticket & kOwnNodeOnly) == 0;
  };
  for (uint32_t i = 1; i < num_nodes(); ++i)
    take_chunks_of(nodes_[(own_node + i) % num_nodes()], own_node, is_of_this_loop);
}

// Takes the node's chunks until none is left or may be taken. Returns the ticket that says so.
template <typename MayTake>
uint64_t ThreadPool::take_chunks_of(Node& node, uint32_t own_node, const MayTake& may_take) {
  uint64_t ticket = node.ticket.load(std::memory_order_acquire);
  while (left_of(ticket) != 0 && may_take(ticket)) {
    if (!node.ticket.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acquire)) continue;
    // This thread has taken the chunk, so the loop cannot end before it is done, and fn_ and context_ stay
    // valid.
    if (&node != &nodes_[own_node]) count_of_other(own_node, ticket);
    fn_(context_, node.end - left_of(ticket), own_node);
    if (node.unfinished_chunks.fetch_sub(1) == 1) node.unfinished_chunks.notify_all();
    ticket = node.ticket.load(std::memory_order_acquire);
  }
  return ticket;
}

void ThreadPool::count_of_other(uint32_t own_node, uint64_t ticket) {
  num_of_others_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t own = nodes_[own_node].ticket.load(std::memory_order_relaxed);
  if (loop_of(own) == loop_of(ticket) && left_of(own) != 0)
    num_too_early_.fetch_add(1, std::memory_order_relaxed);
}

void ThreadPool::work(uint32_t node) {
  uint32_t seen = 0;
  while (true) {
    wait_while(loop_number_, seen);
    seen = loop_number_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_chunks(node);
  }
}

}  // namespace runnel
