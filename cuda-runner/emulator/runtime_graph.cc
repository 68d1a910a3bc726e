// The emulated calls about graphs. Streams are captured into lists of nodes, and these run as one piece of
// work.
#include <memory>

#include "cuda-runner/emulator/call.h"

using namespace runnel::emulator;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call_on(stream, [&](Machine&) {
    if (stream->captured != nullptr)
      return refuse(cudaErrorIllegalState, "a stream is captured twice at a time");
    stream->captured = std::make_shared<Graph>();
    stream->lane = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call_on(stream, [&](Machine& machine) {
    *graph = nullptr;
    if (stream->captured == nullptr)
      return refuse(cudaErrorIllegalState, "the end of a capture that did not begin");
    if (stream->lane != 0)
      return refuse(cudaErrorIllegalState, "a capture ends in another stream than it began in");
    const auto captured = stream->captured;
    for (const auto& other : machine.streams.all())
      if (other->captured == captured) other->captured = nullptr;
    captured->is_open = false;
    if (captured->is_broken) return cudaErrorStreamCaptureInvalidated;
    if (!captured->is_joined())
      return refuse(cudaErrorStreamCaptureUnjoined,
                    "a capture ends before its first stream waits for all others");
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
    if (!machine.current().memory.take(machine.settings.graph_bytes)) return cudaErrorMemoryAllocation;
    *executable = machine.executables.make({graph->graph, current_device});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&](Machine& machine) {
    if (!machine.executables.has(executable)) return cudaErrorInvalidValue;
    machine.devices[static_cast<size_t>(executable->device)].memory.release(machine.settings.graph_bytes);
    machine.executables.remove(executable);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call_on(stream, [&](Machine& machine) {
    if (!machine.executables.has(executable))
      return refuse(cudaErrorInvalidValue, "cudaGraphLaunch of what is no graph");
    if (stream->captured != nullptr) return refuse_in_capture(*stream, "a graph");
    stream->add([&machine, graph = executable->graph] { graph->run(machine.random.next()); });
    return cudaSuccess;
  });
}
