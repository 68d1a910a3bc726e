#include "cuda-runner/device/graph.h"

#include "runner/check.h"

namespace runnel {
namespace {

Handle<cudaGraph_t, cudaGraphDestroy> end_capture(const Stream& stream) {
  cudaGraph_t captured = nullptr;
  expect_success(cudaStreamEndCapture(stream.get(), &captured), "capturing a graph");
  return Handle<cudaGraph_t, cudaGraphDestroy>(captured);
}

}  // namespace

void Graph::launch(const Stream& stream) const {
  expect_success(cudaGraphLaunch(executable_.get(), stream.get()), "launching a graph");
}

GraphCapture::GraphCapture(const Stream& stream) : stream_(stream) {
  expect_success(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
                 "beginning to capture a graph");
}

GraphCapture::~GraphCapture() {
  if (is_open_) end_capture(stream_);
}

Graph GraphCapture::end() {
  CHECK(std::exchange(is_open_, false));
  const auto graph = end_capture(stream_);
  cudaGraphExec_t executable = nullptr;
  expect_success(cudaGraphInstantiate(&executable, graph.get(), 0), "making a graph ready to run");
  return Graph(Graph::Executable(executable));
}

}  // namespace runnel
