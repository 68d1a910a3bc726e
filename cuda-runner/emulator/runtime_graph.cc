// The emulated calls about graphs. A stream is captured into a list of nodes, and the list runs as one piece
// of work.
#include <memory>
#include <utility>

#include "cuda-runner/emulator/call.h"

using namespace runnel::emulator;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call_on(stream, [&](Machine&) {
    if (stream->captured != nullptr)
      return refuse(cudaErrorIllegalState, "a stream is captured twice at a time");
    stream->captured = std::make_shared<Graph>();
    stream->is_capture_broken = false;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call_on(stream, [&](Machine& machine) {
    *graph = nullptr;
    if (stream->captured == nullptr)
      return refuse(cudaErrorIllegalState, "the end of a capture that did not begin");
    const auto captured = std::exchange(stream->captured, nullptr);
    if (stream->is_capture_broken) return cudaErrorStreamCaptureInvalidated;
    *graph = machine.graphs.make({captured});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call(
      [&](Machine& machine) { return machine.graphs.remove(graph) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return call([&](Machine& machine) {
    if (!machine.graphs.has(graph) || flags != 0)
      return refuse(cudaErrorInvalidValue, "cudaGraphInstantiate of no graph, or with flags");
    if (!machine.device_memory.take(machine.settings.graph_bytes)) return cudaErrorMemoryAllocation;
    *executable = machine.executables.make({graph->graph});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&](Machine& machine) {
    if (!machine.executables.remove(executable)) return cudaErrorInvalidValue;
    machine.device_memory.release(machine.settings.graph_bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call_on(stream, [&](Machine& machine) {
    if (!machine.executables.has(executable))
      return refuse(cudaErrorInvalidValue, "cudaGraphLaunch of what is no graph");
    if (stream->captured != nullptr) return refuse_in_capture(*stream, "a graph");
    stream->add([graph = executable->graph] {
      for (const auto& node : graph->nodes) {
        if (device_error() != cudaSuccess) return;
        node();
      }
    });
    return cudaSuccess;
  });
}
