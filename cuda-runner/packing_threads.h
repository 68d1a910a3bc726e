// Threads that pack the tiles of one matrix after another, side by side. A thread takes the next tile, so
// that none waits for a slow one before the end of the matrix.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runner/result.h"

namespace runnel {

// With this many a copy to the device takes longer than packing.
constexpr uint32_t kMaxPackingThreads = 16;

class PackingThreads {
 public:
  // num_threads: 1 to kMaxPackingThreads. Fails with kSystem when a thread cannot be started.
  static Result<std::unique_ptr<PackingThreads>> start(uint32_t num_threads);
  PackingThreads(const PackingThreads&) = delete;
  PackingThreads& operator=(const PackingThreads&) = delete;
  ~PackingThreads();

  // From now on the threads call pack(tile) once for each tile below num_tiles that is allowed, in order of
  // beginning. The tiles of the call before must be done. pack must live until wait_for(num_tiles) has
  // returned.
  void begin(uint32_t num_tiles, std::function<void(uint32_t tile)> pack);
  // Allows the tiles below `end`.
  void allow(uint32_t end);
  // Waits until all tiles below `end` are packed. They must have been allowed.
  void wait_for(uint32_t end);

 private:
  PackingThreads() = default;
  void work();

  std::mutex mutex_;
  std::condition_variable is_allowed_;
  std::condition_variable is_packed_;
  std::function<void(uint32_t tile)> pack_;
  std::vector<bool> packed_;
  uint32_t next_ = 0;        // tile that no thread has taken
  uint32_t end_ = 0;         // of the allowed tiles
  uint32_t num_packed_ = 0;  // all tiles below are packed
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace runnel
