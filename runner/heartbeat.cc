#include "runner/heartbeat.h"

namespace runnel {

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
    wire::FromRunner message;
    wire::Heartbeat& heartbeat = *message.mutable_heartbeat();
    heartbeat.set_phase(vitals_.phase);
    heartbeat.set_step(vitals_.step);
    heartbeat.set_num_requests(vitals_.num_requests);
    heartbeat.set_num_free_blocks(vitals_.num_free_blocks);
    lock.unlock();
    const Result<void> sent = writer_.send(message);
    if (!sent.ok()) return inbox_.close(sent.error());
    lock.lock();
    stop_changed_.wait_for(lock, interval_, [this] { return stop_; });
  }
}

}  // namespace runnel
