// The CPU as a compute device: its name, and how long work takes on it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu-runner/matrix/product.h"
#include "runner/backend/compute_device.h"

namespace runnel {

class CpuDevice final : public ComputeDevice {
 public:
  // What executor refers to must outlive this. num_ranks: processes that compute the model together.
  CpuDevice(const Executor& executor, uint32_t num_ranks) : executor_(executor), num_ranks_(num_ranks) {}

  std::string name() const override;
  uint64_t free_memory_bytes() const override { return 0; }
  uint64_t total_memory_bytes() const override { return 0; }
  uint32_t num_ranks() const override { return num_ranks_; }
  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override;
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override;

 private:
  const Executor executor_;
  const uint32_t num_ranks_;
};

}  // namespace runnel
