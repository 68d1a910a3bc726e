#include "cuda-runner/device/graph.h"

namespace runnel {

void Graph::begin(const Stream& stream) {
  expect_success(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
                 "beginning to capture a graph");
}

Graph Graph::end(const Stream& stream) {
  cudaGraph_t captured = nullptr;
  expect_success(cudaStreamEndCapture(stream.get(), &captured), "capturing a graph");
  const Handle<cudaGraph_t, cudaGraphDestroy> graph(captured);
  cudaGraphExec_t executable = nullptr;
  expect_success(cudaGraphInstantiate(&executable, graph.get(), 0), "making a graph ready to run");
  return Graph(Executable(executable));
}

void Graph::launch(const Stream& stream) const {
  expect_success(cudaGraphLaunch(executable_.get(), stream.get()), "launching a graph");
}

}  // namespace runnel
