// The GPUs of a backend as one compute device: their names, their memory, and how long work takes on the
// first. Times are measured by CUDA events.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda-runner/device/device.h"
#include "cuda-runner/device/stream.h"
#include "runner/backend/compute_device.h"

namespace runnel {

class CudaComputeDevice final : public ComputeDevice {
 public:
  // devices: the first one is that of the stream. All must outlive this.
  CudaComputeDevice(std::vector<const Device*> devices, const Stream& stream)
      : devices_(std::move(devices)), stream_(stream) {}

  std::string name() const override;
  // Of several devices, as if each had as little as that with the least: a model takes the same of each.
  uint64_t free_memory_bytes() const override;
  uint64_t total_memory_bytes() const override;
  uint32_t num_ranks() const override { return static_cast<uint32_t>(devices_.size()); }
  // Captures work() into a graph and launches that, because separate launches take longer than small kernels.
  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override;
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override;
  Result<std::vector<Peak>> peaks(uint32_t max_iterations, uint32_t num_times) override;

 private:
  std::vector<const Device*> devices_;
  const Stream& stream_;
};

}  // namespace runnel
