#include "runner/system/deep_thread.h"

#include <sys/resource.h>

#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

constexpr size_t kStackBytes = size_t{256} << 20;
constexpr int kLowered = 10;  // steps of niceness

void* run(void* fn) {
  (*static_cast<std::function<void()>*>(fn))();
  return nullptr;
}

}  // namespace

void lower_priority() {
  // On Linux, of the thread. The process may have been given another priority than 0 itself.
  (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kLowered);
}

bool DeepThread::start(std::function<void()> fn) {
  CHECK(!is_started_);
  fn_ = std::move(fn);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, kStackBytes) == 0);
  is_started_ = pthread_create(&thread_, &attributes, run, &fn_) == 0;
  pthread_attr_destroy(&attributes);
  return is_started_;
}

void DeepThread::join() {
  if (std::exchange(is_started_, false)) CHECK(pthread_join(thread_, nullptr) == 0);
}

}  // namespace runnel
