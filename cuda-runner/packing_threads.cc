#include "cuda-runner/packing_threads.h"

#include <string>
#include <system_error>
#include <utility>

#include "runner/check.h"

namespace runnel {

Result<std::unique_ptr<PackingThreads>> PackingThreads::start(uint32_t num_threads) {
  CHECK(num_threads >= 1 && num_threads <= kMaxPackingThreads);
  std::unique_ptr<PackingThreads> threads(new PackingThreads);
  try {
    while (threads->threads_.size() < num_threads)
      threads->threads_.emplace_back([packing = threads.get()] { packing->work(); });
  } catch (const std::system_error& error) {
    return Error{ExitCode::kSystem,
                 "A thread that packs weights could not be started: " + std::string(error.what()) + "."};
  }
  return threads;
}

PackingThreads::~PackingThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  is_allowed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PackingThreads::begin(uint32_t num_tiles, std::function<void(uint32_t tile)> pack) {
  const std::lock_guard lock(mutex_);
  CHECK(num_packed_ == packed_.size());
  pack_ = std::move(pack);
  packed_.assign(num_tiles, false);
  next_ = end_ = num_packed_ = 0;
}

void PackingThreads::allow(uint32_t end) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(end >= end_ && end <= packed_.size());
    if (end == end_) return;
    end_ = end;
  }
  is_allowed_.notify_all();
}

void PackingThreads::wait_for(uint32_t end) {
  std::unique_lock lock(mutex_);
  CHECK(end <= end_);
  is_packed_.wait(lock, [&] { return num_packed_ >= end; });
}

void PackingThreads::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    is_allowed_.wait(lock, [&] { return is_stopping_ || next_ < end_; });
    if (is_stopping_) return;
    const uint32_t tile = next_++;
    lock.unlock();
    pack_(tile);
    lock.lock();
    packed_[tile] = true;
    if (tile != num_packed_) continue;
    while (num_packed_ < packed_.size() && packed_[num_packed_]) ++num_packed_;
    is_packed_.notify_one();
  }
}

}  // namespace runnel
