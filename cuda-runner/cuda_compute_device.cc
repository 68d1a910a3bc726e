#include "cuda-runner/cuda_compute_device.h"

#include <algorithm>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/graph.h"
#include "cuda-runner/kernels/peak.h"

namespace runnel {
namespace {

constexpr uint32_t kFewIterations = 16;
constexpr double kLongLoopSeconds = 1e-3;

}  // namespace

std::string CudaComputeDevice::name() const {
  const int capability = devices_.front()->compute_capability();
  const std::string count = devices_.size() == 1 ? "" : std::to_string(devices_.size()) + " times ";
  return "cuda, " + count + devices_.front()->name() + ", compute capability " +
         std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

uint64_t CudaComputeDevice::free_memory_bytes() const {
  uint64_t least = UINT64_MAX;
  for (const Device* device : devices_) {
    if (devices_.size() > 1) device->make_current();
    least = std::min(least, device->free_bytes());
  }
  return least * devices_.size();
}

uint64_t CudaComputeDevice::total_memory_bytes() const {
  uint64_t least = UINT64_MAX;
  for (const Device* device : devices_) least = std::min(least, device->total_bytes());
  return least * devices_.size();
}

std::vector<double> CudaComputeDevice::seconds_of(const std::function<void()>& work, uint32_t num_times) {
  GraphCapture capture(stream_);
  work();
  const Graph graph = capture.end();
  graph.launch(stream_);
  std::vector<double> seconds;
  for (uint32_t i = 0; i < num_times; ++i) {
    Event begin;
    Event end;
    begin.record(stream_);
    graph.launch(stream_);
    end.record(stream_);
    end.synchronize();
    seconds.push_back(Event::milliseconds_between(begin, end) / 1e3);
  }
  return seconds;
}

Result<std::vector<double>> CudaComputeDevice::seconds_of_copy(uint64_t bytes, uint32_t num_times) {
  auto from = DeviceBuffer<uint8_t>::allocate(bytes, "the copy benchmark");
  if (!from) return from.error();
  auto to = DeviceBuffer<uint8_t>::allocate(bytes, "the copy benchmark");
  if (!to) return to.error();
  return seconds_of([&] { stream_.copy(*to, *from); }, num_times);
}

Result<std::vector<ComputeDevice::Peak>> CudaComputeDevice::peaks(uint32_t max_iterations,
                                                                  uint32_t num_times) {
  expect_success(load_peaks(), "loading loops");
  auto results = DeviceBuffer<uint32_t>::allocate(peak_results(), "the loops of a benchmark");
  if (!results) return results.error();
  std::vector<Peak> peaks;
  const auto add = [&](const char* instruction, const auto& loop) {
    Peak peak{.instruction = instruction, .operations = 0, .seconds = {}};
    // As many that the time of the launch does not count.
    uint32_t num_iterations = std::min(kFewIterations, max_iterations);
    const auto launch = [&] {
      const PeakLoop launched = loop(num_iterations, results->view(), stream_.get());
      expect_success(launched.status, "launching a loop");
      peak.operations = launched.operations;
    };
    while (num_iterations < max_iterations && seconds_of(launch, 1).front() < kLongLoopSeconds)
      num_iterations = std::min(4 * num_iterations, max_iterations);
    peak.seconds = seconds_of(launch, num_times);
    peaks.push_back(std::move(peak));
  };
  add("mma_s8", peak_of_mma);
  add("fma_f32", peak_of_fma);
  return peaks;
}

}  // namespace runnel
