// A moment in a stream's work.
#pragma once

#include <cuda_runtime.h>

#include "cuda-runner/device/handle.h"

namespace runnel {

class Stream;

class Event {
 public:
  Event();

  // The moment when all that was given to the stream until now is done.
  void record(const Stream& stream);
  // Waits for it, on the host.
  void synchronize() const;
  // Both were recorded and have come.
  static float milliseconds_between(const Event& from, const Event& to);

  cudaEvent_t get() const { return event_.get(); }

 private:
  Handle<cudaEvent_t, cudaEventDestroy> event_;
};

}  // namespace runnel
