// Threads that live as long as the backend and share the chunks of one loop after another. Threads take
// chunks from a counter, so a thread that the system takes off its core delays only the chunk it has. The
// caller works too, and a loop ends when its chunks are done, not when every thread has noticed. Any thread
// may compute any chunk, so the result of a chunk must not depend on its thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runner/result.h"
#include "runner/system/processors.h"

namespace runnel {

class ThreadPool {
 public:
  // num_threads includes the caller; 0 means usable_processors(). Fails with kUsage above kMaxThreads, and
  // with kSystem when a thread cannot be started.
  static Result<std::unique_ptr<ThreadPool>> create(uint32_t num_threads);

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  uint32_t num_threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  // Calls fn(chunk) for each chunk below num_chunks, on any thread, and returns when all calls have returned.
  // Only one call of parallel_for at a time; fn must not call it.
  template <typename Fn>
  void parallel_for(uint32_t num_chunks, const Fn& fn) {
    run(
        num_chunks, [](const void* context, uint32_t chunk) { (*static_cast<const Fn*>(context))(chunk); },
        &fn);
  }

 private:
  using ChunkFn = void (*)(const void* context, uint32_t chunk);

  ThreadPool() = default;
  void run(uint32_t num_chunks, ChunkFn fn, const void* context);
  void take_chunks();
  void work();

  // The current loop. Written only while no chunk of a loop is left or under way; read only by a thread that
  // has taken a chunk.
  ChunkFn fn_ = nullptr;
  const void* context_ = nullptr;
  uint32_t num_chunks_ = 0;

  // High half: number of the loop. Low half: chunks of the loop that no thread has taken. Both are in one
  // word, so that a thread that slept through a loop cannot take a chunk of the next one by mistake.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> unfinished_chunks_{0};
  alignas(64) std::atomic<uint32_t> loop_number_{0};  // idle threads watch it
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace runnel
