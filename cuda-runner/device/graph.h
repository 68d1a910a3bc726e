// Work that was given to a stream once and runs as often as it is wanted, for the cost of one launch. Its
// arguments are those of the first time: what differs from time to time is in memory that they point to.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "cuda-runner/device/handle.h"
#include "cuda-runner/device/stream.h"

namespace runnel {

class Graph {
 public:
  // give() gives work to the stream, which does none of it. It may not wait for anything, nor allocate.
  template <typename Give>
  static Graph capture(const Stream& stream, const Give& give) {
    begin(stream);
    give();
    return end(stream);
  }

  void launch(const Stream& stream) const;

 private:
  using Executable = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

  explicit Graph(Executable executable) : executable_(std::move(executable)) {}
  static void begin(const Stream& stream);
  static Graph end(const Stream& stream);

  Executable executable_;
};

}  // namespace runnel
