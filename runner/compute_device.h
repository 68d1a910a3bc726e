// The device that a backend computes on, for those who ask about it or measure it. Computing is not here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runner/result.h"

namespace runnel {

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  // For people: "cpu, avx2, 2 threads".
  virtual std::string name() const = 0;
  // What could still be allocated for the KV cache, for devices with memory of their own; 0: the system's is
  // what there is.
  virtual uint64_t free_memory_bytes() const = 0;

  // Seconds that the operations work() asks for take on the device, each of so many times, after a time that
  // does not count. In a forward pass whose operations are launched by themselves (enforce_eager).
  virtual std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) = 0;
  // The same of a copy of so many bytes within the device's memory. Fails with kSystem where there is no room
  // for them twice.
  virtual Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) = 0;
};

}  // namespace runnel
