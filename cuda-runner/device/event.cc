#include "cuda-runner/device/event.h"

#include "cuda-runner/device/stream.h"

namespace runnel {
namespace {

cudaEvent_t create_event() {
  cudaEvent_t event = nullptr;
  expect_success(cudaEventCreateWithFlags(&event, cudaEventDefault), "creating an event");
  return event;
}

}  // namespace

Event::Event() : event_(create_event()) {}

void Event::record(const Stream& stream) {
  expect_success(cudaEventRecord(event_.get(), stream.get()), "recording an event");
}

void Event::synchronize() const {
  expect_success(cudaEventSynchronize(event_.get()), "waiting for an event");
}

float Event::milliseconds_between(const Event& from, const Event& to) {
  float milliseconds = 0;
  expect_success(cudaEventElapsedTime(&milliseconds, from.get(), to.get()), "reading the time of events");
  return milliseconds;
}

}  // namespace runnel
