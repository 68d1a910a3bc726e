// Commands on their way from the thread that reads stdin to the thread that computes. Bounded in number and
// bytes: when it is full the reader stops reading, the pipe fills, and the gateway notices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "runner/result.h"
#include "runner/serving/messages.h"

namespace runnel {

constexpr size_t kMaxInboxCommands = 1024;
// Of memory that commands hold. One command may hold more, so that any legal one gets through.
constexpr size_t kMaxInboxBytes = 32u << 20;

// The memory that a command holds: an id takes four bytes, of which the wire may need one, and a list has
// room to grow. A little too much, since what stands on the wire is counted beside it.
size_t held_bytes(const wire::ToRunner& command);

class Inbox {
 public:
  struct Contents {
    std::vector<wire::ToRunner> commands;  // in order
    // Set when no command will follow: the stream ended between two frames, or what was wrong.
    std::optional<Result<void>> end;
  };

  // Waits while the inbox is full. False if it is closed: the command is dropped.
  bool put(wire::ToRunner command);
  // No command comes after this. The first reason stays.
  void close(Result<void> reason);

  // What is there now, perhaps nothing.
  Contents take();
  // The cancels that may be obeyed before what came before them: those whose Generate or Embed is not among
  // that. What else there is stays, in order.
  std::vector<wire::ToRunner> take_cancels();
  // What is there now, but waits until there is something to take, the inbox is closed, or nudge() or so much
  // time has come.
  Contents wait(std::chrono::milliseconds at_most = std::chrono::hours(1));
  // Ends a wait, the next one if there is none now.
  void nudge();

 private:
  Contents take_locked();

  std::mutex mutex_;
  std::condition_variable has_room_;
  std::condition_variable has_news_;
  std::vector<wire::ToRunner> commands_;
  size_t num_bytes_ = 0;
  bool is_nudged_ = false;
  std::optional<Result<void>> end_;
};

}  // namespace runnel
