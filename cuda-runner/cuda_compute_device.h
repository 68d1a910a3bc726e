// The GPU as a compute device: its name, its free memory, and how long work takes on it. Times are measured
// by CUDA events.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda-runner/device/device.h"
#include "cuda-runner/device/stream.h"
#include "runner/backend/compute_device.h"

namespace runnel {

class CudaComputeDevice final : public ComputeDevice {
 public:
  // device and stream must outlive this.
  CudaComputeDevice(const Device& device, const Stream& stream) : device_(device), stream_(stream) {}

  std::string name() const override;
  uint64_t free_memory_bytes() const override { return device_.free_bytes(); }
  uint64_t total_memory_bytes() const override { return device_.total_bytes(); }
  // Captures work() into a graph and launches that, because separate launches take longer than small kernels.
  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override;
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override;

 private:
  const Device& device_;
  const Stream& stream_;
};

}  // namespace runnel
