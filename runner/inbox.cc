#include "runner/inbox.h"

#include <utility>

namespace runnel {

bool Inbox::put(wire::ToRunner command, size_t num_bytes) {
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [&] {
    const bool fits = commands_.size() < kMaxInboxCommands && num_bytes_ + num_bytes <= kMaxInboxBytes;
    return end_ || commands_.empty() || fits;
  });
  if (end_) return false;
  commands_.push_back(std::move(command));
  num_bytes_ += num_bytes;
  has_news_.notify_one();
  return true;
}

void Inbox::close(Result<void> reason) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = std::move(reason);
  has_room_.notify_all();
  has_news_.notify_all();
}

Inbox::Contents Inbox::take() {
  const std::lock_guard lock(mutex_);
  return take_locked();
}

Inbox::Contents Inbox::wait() {
  std::unique_lock lock(mutex_);
  has_news_.wait(lock, [&] { return end_ || !commands_.empty(); });
  return take_locked();
}

Inbox::Contents Inbox::take_locked() {
  num_bytes_ = 0;
  has_room_.notify_all();
  return {std::exchange(commands_, {}), end_};
}

}  // namespace runnel
