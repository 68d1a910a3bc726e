#include "cuda-runner/timing.h"

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/graph.h"

namespace runnel {

std::vector<double> seconds_of(const Stream& stream, const std::function<void()>& work, uint32_t num_times) {
  GraphCapture capture(stream);
  work();
  const Graph graph = capture.end();
  graph.launch(stream);
  std::vector<double> seconds;
  for (uint32_t i = 0; i < num_times; ++i) {
    Event begin;
    Event end;
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    end.synchronize();
    seconds.push_back(Event::milliseconds_between(begin, end) / 1e3);
  }
  return seconds;
}

Result<std::vector<double>> seconds_of_copy(const Stream& stream, uint64_t bytes, uint32_t num_times) {
  auto from = DeviceBuffer<uint8_t>::allocate(bytes, "a copy to measure against");
  if (!from) return from.error();
  auto to = DeviceBuffer<uint8_t>::allocate(bytes, "a copy to measure against");
  if (!to) return to.error();
  return seconds_of(
      stream, [&] { stream.copy(*to, *from); }, num_times);
}

}  // namespace runnel
