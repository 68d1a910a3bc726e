// The GPU that a process uses.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"

namespace runnel {

class StartTimes;

// Volta is the first architecture with tensor cores and with threads of a warp that branch independently.
inline constexpr int kMinMajor = 7;

// "13.0" for 13000.
std::string cuda_version_name(int version);

class Device {
 public:
  // number: from 0 on, in the order of the driver. Runs a kernel on the device, which shows that it can be
  // used. Fails with kNoDevice; the message says what is missing and what to do.
  // times: gets those of the driver, the context and the kernel; may be null.
  static Result<Device> open(int number, StartTimes* times = nullptr);

  // Makes the calls of this thread be about this device, as open() does.
  void make_current() const;
  // Lets this device read and write the memory of another one directly. False if it cannot; copies between
  // them go through the host then.
  bool reach(const Device& other) const;

  int number() const { return number_; }
  const std::string& name() const { return name_; }
  // 90 for 9.0.
  int compute_capability() const { return compute_capability_; }
  uint64_t total_bytes() const { return total_bytes_; }
  // The memory that no process uses at the moment. The device must be current.
  uint64_t free_bytes() const;

 private:
  Device() = default;

  int number_ = 0;
  std::string name_;
  int compute_capability_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace runnel
