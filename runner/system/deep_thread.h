// A thread with a stack for deep recursion. Only the part of the stack that is used takes memory.
#pragma once

#include <pthread.h>

#include <functional>

namespace runnel {

class DeepThread {
 public:
  DeepThread() = default;
  ~DeepThread() { join(); }
  DeepThread(const DeepThread&) = delete;
  DeepThread& operator=(const DeepThread&) = delete;

  // Returns false if the system refuses the thread. fn must end and must not throw.
  [[nodiscard]] bool start(std::function<void()> fn);
  bool is_started() const { return is_started_; }
  // Waits for the end of fn, if the thread was started.
  void join();

 private:
  std::function<void()> fn_;
  pthread_t thread_{};
  bool is_started_ = false;
};

// From now on the calling thread gets about a tenth of a core that other threads use, so that work beside the
// steps leaves them the cores. Where the system refuses it, they share the cores.
void lower_priority();

}  // namespace runnel
