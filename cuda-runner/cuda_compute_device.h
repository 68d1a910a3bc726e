// The GPU as those see it who ask about it or measure it; times are those of its own events.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda-runner/device/device.h"
#include "cuda-runner/device/stream.h"
#include "runner/compute_device.h"

namespace runnel {

class CudaComputeDevice final : public ComputeDevice {
 public:
  // Both outlive this.
  CudaComputeDevice(const Device& device, const Stream& stream) : device_(device), stream_(stream) {}

  std::string name() const override;
  uint64_t free_memory_bytes() const override { return device_.free_bytes(); }
  // work() is launched as one graph: a launch by itself would take longer than small kernels do.
  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override;
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override;

 private:
  const Device& device_;
  const Stream& stream_;
};

}  // namespace runnel
