// Tells the gateway once a second that the process lives, what the stepping thread is doing and what it has
// done, from a thread of its own: a step counter that stands still while there is work means that the
// stepping thread hangs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "runner/serving/channel.h"
#include "runner/serving/inbox.h"
#include "runner/serving/messages.h"

namespace runnel {

constexpr std::chrono::milliseconds kHeartbeatInterval{1000};

// Written by the stepping thread, read by the heartbeat's.
class Vitals {
 public:
  std::atomic<wire::Phase> phase = wire::PHASE_LOADING;
  std::atomic<uint64_t> step = 0;  // the last finished one
  std::atomic<uint32_t> num_requests = 0;
  std::atomic<uint32_t> num_free_blocks = 0;

  void set_stats(const wire::Stats& stats);
  // None before the first ones are set.
  std::optional<wire::Stats> stats() const;

 private:
  mutable std::mutex mutex_;
  std::optional<wire::Stats> stats_;
};

class Heartbeat {
 public:
  // Beats, with Stats if there are any, at once, then at each interval until destroyed. If writing fails it
  // closes the inbox, so that a stepping thread that waits there learns that the gateway is gone.
  Heartbeat(FrameWriter& writer, const Vitals& vitals, Inbox& inbox,
            std::chrono::milliseconds interval = kHeartbeatInterval);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void beat_until_stopped();
  Result<void> beat();

  FrameWriter& writer_;
  const Vitals& vitals_;
  Inbox& inbox_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace runnel
