// A thread with a stack for deep recursion. Only what is used of the stack takes memory.
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

  // False if the system refuses it. fn must end; it must not throw.
  [[nodiscard]] bool start(std::function<void()> fn);
  bool is_started() const { return is_started_; }
  // Waits for the end of fn, if it was started.
  void join();

 private:
  std::function<void()> fn_;
  pthread_t thread_{};
  bool is_started_ = false;
};

}  // namespace runnel
