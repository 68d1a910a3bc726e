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
  void launch(const Stream& stream) const;

 private:
  friend class GraphCapture;
  using Executable = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

  explicit Graph(Executable executable) : executable_(std::move(executable)) {}

  Executable executable_;
};

// From its making to end(), work that is given to the stream is not done but kept. None of it may wait for
// anything, nor allocate.
class GraphCapture {
 public:
  // The stream outlives it.
  explicit GraphCapture(const Stream& stream);
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  // Once.
  Graph end();

 private:
  const Stream& stream_;
  bool is_open_ = true;
};

}  // namespace runnel
