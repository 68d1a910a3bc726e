// The device that a backend computes on, for code that describes or measures it. It has no operations.
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
  // Bytes that can still be allocated for the KV cache, for devices with memory of their own. 0 means that
  // the device uses the system's memory.
  virtual uint64_t free_memory_bytes() const = 0;
  // All memory of such a device, used or free. 0: as above.
  virtual uint64_t total_memory_bytes() const = 0;
  // GPUs or processes that compute the model together. Bytes of memory are those of all of them.
  virtual uint32_t num_ranks() const = 0;

  // Seconds that the operations of work() take on the device, for each of num_times calls, after a call that
  // does not count. Call it in a forward pass whose operations are launched one by one (enforce_eager).
  virtual std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) = 0;
  // The same for a copy of this many bytes within the device's memory. Fails with kSystem if there is no room
  // for them twice.
  virtual Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) = 0;

  // A loop of the instruction that most time of products is spent with, and nothing else.
  struct Peak {
    std::string instruction;
    uint64_t operations;  // multiplications and additions
    std::vector<double> seconds;
  };
  // Those that the device has, with the times of at most so many iterations, as above.
  virtual Result<std::vector<Peak>> peaks(uint32_t num_iterations, uint32_t num_times) {
    static_cast<void>(num_iterations);
    static_cast<void>(num_times);
    return std::vector<Peak>();
  }
};

}  // namespace runnel
