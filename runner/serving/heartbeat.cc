#include "runner/serving/heartbeat.h"

#include "runner/system/process_memory.h"

namespace runnel {

void Vitals::set_stats(const wire::Stats& stats) {
  const std::lock_guard lock(mutex_);
  stats_ = stats;
}

std::optional<wire::Stats> Vitals::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

Heartbeat::Heartbeat(FrameWriter& writer, const Vitals& vitals, Inbox& inbox,
                     std::chrono::milliseconds interval)
    : writer_(writer), vitals_(vitals), inbox_(inbox), interval_(interval), thread_([this] {
        beat_until_stopped();
      }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_one();
  thread_.join();
}

void Heartbeat::beat_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const Result<void> sent = beat();
    if (!sent.ok()) return inbox_.close(sent.error());
    lock.lock();
    stop_changed_.wait_for(lock, interval_, [this] { return stop_; });
  }
}

Result<void> Heartbeat::beat() {
  wire::FromRunner message;
  wire::Heartbeat& heartbeat = *message.mutable_heartbeat();
  heartbeat.set_phase(vitals_.phase);
  heartbeat.set_step(vitals_.step);
  heartbeat.set_num_requests(vitals_.num_requests);
  heartbeat.set_num_free_blocks(vitals_.num_free_blocks);
  if (const auto sent = writer_.send(message); !sent.ok()) return sent;

  const std::optional<wire::Stats> stats = vitals_.stats();
  if (!stats) return {};
  *message.mutable_stats() = *stats;
  const Result<uint64_t> memory_bytes = private_memory_bytes();
  if (memory_bytes.ok()) message.mutable_stats()->set_memory_bytes(*memory_bytes);
  return writer_.send(message);
}

}  // namespace runnel
