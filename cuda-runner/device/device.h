// The GPU that a process uses.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"

namespace runnel {

// Tensor cores, and threads of a warp that go ways of their own, are there from Volta on.
inline constexpr int kMinMajor = 7;

// "13.0" of 13000.
std::string cuda_version_name(int version);

class Device {
 public:
  // Numbered from 0, as the driver does. A device counts when a kernel has run on it. Fails with kNoDevice,
  // naming what is missing and what helps.
  static Result<Device> open(int number);

  int number() const { return number_; }
  const std::string& name() const { return name_; }
  // 90 for 9.0.
  int compute_capability() const { return compute_capability_; }
  uint32_t num_multiprocessors() const { return num_multiprocessors_; }
  uint64_t total_bytes() const { return total_bytes_; }
  // Now, whoever uses the rest.
  uint64_t free_bytes() const;

 private:
  Device() = default;

  int number_ = 0;
  std::string name_;
  int compute_capability_ = 0;
  uint32_t num_multiprocessors_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace runnel
