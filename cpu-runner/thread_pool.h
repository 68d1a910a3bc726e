// Threads that live as long as the backend and share the chunks of one loop after another. Threads take
// chunks from a counter, so a thread that the system takes off its core delays only the chunk it has. The
// caller works too, and a loop ends when its chunks are done, not when every thread has noticed. Any thread
// may compute any chunk, so the result of a chunk must not depend on its thread.
//
// The threads belong to NUMA nodes, of which each has a part of the chunks and a counter of its own. A thread
// takes the chunks of its node, and those of other nodes when its own has none left.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "runner/result.h"
#include "runner/system/numa_threads.h"
#include "runner/system/processors.h"

namespace runnel {

class ThreadPool {
 public:
  // num_threads includes the caller, which belongs to the first node; 0 means usable_cores(). nodes: those of
  // these threads, or none, which is one node. Binds the threads, and the caller until the pool ends, to the
  // processors of their nodes; where the system refuses that, stderr says so. Threads that the caller starts
  // meanwhile are bound as it is. Fails with kUsage above kMaxThreads, and with kSystem when a thread cannot
  // be started.
  static Result<std::unique_ptr<ThreadPool>> create(uint32_t num_threads,
                                                    std::vector<NodeThreads> nodes = {});

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  uint32_t num_threads() const { return num_threads_; }
  uint32_t num_nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  uint32_t num_threads_of(uint32_t node) const { return nodes_[node].num_threads; }

  // Calls fn(chunk) for each chunk below num_chunks, on any thread, and returns when all calls have returned.
  // The nodes get parts in proportion to their threads.
  // Only one loop at a time; fn must not begin another one.
  template <typename Fn>
  void parallel_for(uint32_t num_chunks, const Fn& fn) {
    run(in_proportion(num_chunks), Takers::kAll, without_node<Fn>, &fn);
  }

  // The same for chunks of which node n has those from ends[n - 1] to ends[n]. Calls fn(chunk, node) with the
  // node of the thread, which is another one than the chunk's if that thread had nothing else to do.
  template <typename Fn>
  void parallel_for_nodes(std::span<const uint32_t> ends, const Fn& fn) {
    run(ends, Takers::kAll, with_node<Fn>, &fn);
  }

  // The same, but each chunk is computed by a thread of its node.
  template <typename Fn>
  void run_on_nodes(std::span<const uint32_t> ends, const Fn& fn) {
    run(ends, Takers::kOwnNode, with_node<Fn>, &fn);
  }

  // Calls fn(node) for each node, on a thread of the node.
  template <typename Fn>
  void for_each_node(const Fn& fn) {
    run(one_each_, Takers::kOwnNode, without_node<Fn>, &fn);
  }

  // What the counters have shown since the start. Loops that the caller computes alone do not count.
  struct Counts {
    uint64_t num_chunks = 0;
    uint64_t num_of_others = 0;  // chunks that a thread of another node has taken
    uint64_t num_too_early = 0;  // of these, those that were taken while the thread's node had chunks left
  };
  Counts counts() const { return {num_chunks_, num_of_others_, num_too_early_}; }

 private:
  using ChunkFn = void (*)(const void* context, uint32_t chunk, uint32_t node);
  enum class Takers { kAll, kOwnNode };

  // The part of a loop that belongs to a node.
  struct alignas(64) Node {
    // High half: number of the loop. Low half: chunks that no thread has taken, and a bit that is set if they
    // are not for threads of other nodes. All is in one word, so that a thread that slept through a loop
    // cannot take a chunk of the next one by mistake.
    std::atomic<uint64_t> ticket{0};
    // The last of the chunks, plus 1. Written and read as ThreadPool::fn_ is.
    uint32_t end = 0;
    uint32_t num_threads = 0;
    uint32_t num_threads_before = 0;  // of the nodes before
    alignas(64) std::atomic<uint32_t> unfinished_chunks{0};
  };

  template <typename Fn>
  static void without_node(const void* context, uint32_t chunk, uint32_t) {
    (*static_cast<const Fn*>(context))(chunk);
  }
  template <typename Fn>
  static void with_node(const void* context, uint32_t chunk, uint32_t node) {
    (*static_cast<const Fn*>(context))(chunk, node);
  }

  explicit ThreadPool(std::span<const NodeThreads> nodes);
  Result<void> start_threads(std::span<const NodeThreads> nodes);
  bool bind_caller(std::span<const uint32_t> processors);
  std::span<const uint32_t> in_proportion(uint32_t num_chunks);
  void run(std::span<const uint32_t> ends, Takers takers, ChunkFn fn, const void* context);
  void take_chunks(uint32_t own_node);
  template <typename MayTake>
  uint64_t take_chunks_of(Node& node, uint32_t own_node, const MayTake& may_take);
  void count_of_other(uint32_t own_node, uint64_t ticket);
  void work(uint32_t node);

  // The current loop. Written only while no chunk of a loop is left or under way; read only by a thread that
  // has taken a chunk.
  ChunkFn fn_ = nullptr;
  const void* context_ = nullptr;

  std::vector<Node> nodes_;
  alignas(64) std::atomic<uint32_t> loop_number_{0};  // idle threads watch it
  std::atomic<bool> stopping_{false};
  alignas(64) uint32_t num_threads_ = 0;
  std::vector<uint32_t> ends_;      // of in_proportion
  std::vector<uint32_t> one_each_;  // ends of one chunk for each node
  std::vector<std::thread> workers_;
  std::vector<uint32_t> callers_processors_;  // before it was bound; none: it was not
  uint64_t num_chunks_ = 0;
  std::atomic<uint64_t> num_of_others_{0};
  std::atomic<uint64_t> num_too_early_{0};
};

}  // namespace runnel
