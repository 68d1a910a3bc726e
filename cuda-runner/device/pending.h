// Work of a stream that the host must wait for before it touches memory that the work copies. It waits once.
#pragma once

#include <utility>

#include "cuda-runner/device/event.h"

namespace runnel {

class Pending {
 public:
  // All work given to the stream so far is pending.
  void record(const Stream& stream) {
    event_.record(stream);
    is_pending_ = true;
  }
  // Returns at once if nothing is.
  void wait() {
    if (std::exchange(is_pending_, false)) event_.synchronize();
  }

 private:
  Event event_;
  bool is_pending_ = false;
};

}  // namespace runnel
