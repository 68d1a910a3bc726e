// The emulated calls about streams and events.
#include <chrono>
#include <memory>
#include <string>

#include "cuda-runner/emulator/call.h"

using namespace runnel::emulator;

namespace {

double now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

template <typename Body>
cudaError_t call_about(cudaEvent_t event, const Body& body) {
  return call([&](Machine& machine) {
    if (machine.events.has(event)) return body(machine);
    return refuse(cudaErrorInvalidResourceHandle, "there is no such event");
  });
}

// A wait for a stream in a capture would never end, since captured work does not run.
cudaError_t refuse_waiting(CUstream_st& stream) {
  return refuse_in_capture(stream, "waiting for a stream, or asking whether it is done,");
}

// Work that is captured has not been done when the host asks.
cudaError_t refuse_captured(CUevent_st& event) {
  event.captured->is_broken = true;
  return refuse(cudaErrorCapturedEvent, "the host waits for an event of a capture, or asks about it");
}

// Makes the stream wait for an event of a capture, of which it becomes a part.
cudaError_t wait_in_capture(CUstream_st& stream, const CUevent_st& event) {
  if (!event.captured->is_open)
    return refuse(cudaErrorCapturedEvent, "a stream waits for an event of a capture that has ended");
  if (stream.captured == nullptr) {
    stream.captured = event.captured;
    stream.lane = event.captured->lanes.size();
    event.captured->lanes.emplace_back();
  }
  if (stream.captured != event.captured) {
    stream.captured->is_broken = true;
    return refuse(cudaErrorStreamCaptureIsolation, "a capture waits for an event of another one");
  }
  stream.captured->lanes[stream.lane].emplace_back(event.point);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&](Machine& machine) {
    if (flags != cudaStreamNonBlocking)
      return refuse(cudaErrorInvalidValue, "streams are cudaStreamNonBlocking here");
    *stream = machine.streams.make({});
    (*stream)->device = current_device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call_on(stream, [&](Machine& machine) {
    stream->run_all();
    machine.streams.remove(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call_on(stream, [&](Machine&) {
    if (stream->captured != nullptr) return refuse_waiting(*stream);
    stream->run_all();
    return cudaSuccess;
  });
}

// Each query runs one piece of work, as if time passed.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call_on(stream, [&](Machine&) {
    if (stream->captured != nullptr) return refuse_waiting(*stream);
    if (!stream->is_empty()) stream->run_one();
    return stream->is_empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call_on(stream, [&](Machine& machine) {
    if (!machine.events.has(event))
      return refuse(cudaErrorInvalidResourceHandle, "a stream waits for an event that does not exist");
    if (event->captured != nullptr) return wait_in_capture(*stream, *event);
    if (stream->captured != nullptr) {
      stream->captured->is_broken = true;
      return refuse(cudaErrorStreamCaptureIsolation, "a capture waits for an event from before it");
    }
    if (event->last == nullptr) return cudaSuccess;
    stream->add([mark = event->last] {
      if (!mark->is_reached) mark->stream->run_until(*mark);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](Machine& machine) {
    if (flags != cudaEventDefault && flags != cudaEventDisableTiming)
      return refuse(cudaErrorInvalidValue, "flags of cudaEventCreateWithFlags");
    *event = machine.events.make(
        {.has_time = flags == cudaEventDefault, .device = current_device, .last = nullptr});
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call_about(event, [&](Machine& machine) {
    machine.events.remove(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call_on(stream, [&](Machine& machine) {
    if (!machine.events.has(event))
      return refuse(cudaErrorInvalidResourceHandle, "an event is recorded that does not exist");
    if (event->device != stream->device)
      return refuse(cudaErrorInvalidResourceHandle, "an event of device " + std::to_string(event->device) +
                                                        " is recorded in a stream of device " +
                                                        std::to_string(stream->device));
    event->last = nullptr;
    event->captured = stream->captured;
    if (stream->captured != nullptr) {
      event->point = stream->captured->end_of(stream->lane);
      return cudaSuccess;
    }
    const auto mark = std::make_shared<Mark>(Mark{.stream = stream});
    event->last = mark;
    stream->add([mark] {
      mark->is_reached = true;
      mark->at_ms = now_ms();
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call_about(event, [&](Machine&) {
    if (event->captured != nullptr) return refuse_captured(*event);
    if (event->last != nullptr && !event->last->is_reached) event->last->stream->run_until(*event->last);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call_about(event, [&](Machine&) {
    if (event->captured != nullptr) return refuse_captured(*event);
    if (event->last == nullptr || event->last->is_reached) return cudaSuccess;
    event->last->stream->run_one();
    return event->last->is_reached ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call([&](Machine& machine) {
    for (const cudaEvent_t event : {from, to}) {
      if (!machine.events.has(event) || !event->has_time || event->last == nullptr)
        return refuse(cudaErrorInvalidResourceHandle, "the time of an event that has none");
      if (!event->last->is_reached) return cudaErrorNotReady;
    }
    *milliseconds = static_cast<float>(to->last->at_ms - from->last->at_ms);
    return cudaSuccess;
  });
}
