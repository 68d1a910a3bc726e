// The properties of the emulated device, and its failures. Tests set them by start(); for a whole program the
// environment sets them (docs/cuda.md, "The emulated device").
#pragma once

#include <cstdint>

namespace runnel::emulator {

inline constexpr uint32_t kMaxDevices = 8;

struct Settings {
  uint32_t num_devices = 1;
  uint32_t compute_capability = 90;
  uint32_t num_multiprocessors = 4;
  uint64_t memory_bytes = uint64_t{4} << 30;  // of each device
  // What the driver takes of it for each kernel that is loaded, and for each graph that is ready to run.
  uint64_t kernel_bytes = 0;
  uint64_t graph_bytes = 0;
  // A version below CUDART_VERSION is too old; 0 means that there is no driver.
  uint32_t driver_version = 13000;
  // The launch, counted from 1, at which the device is lost; 0: never.
  uint64_t die_at_launch = 0;
  // The launch, counted from 1, after which every copy to the host has a wrong bit, the lowest of its first
  // byte; 0: none has.
  uint64_t flip_after_launch = 0;
  // Whether races on device memory are detected. This takes time, and 16 bytes for each byte that kernels
  // use.
  bool finds_races = false;
  // The largest processor time of a block, in milliseconds.
  uint32_t max_block_ms = 120'000;
  // Decides the order of blocks, the first thread of a block, and the order of streams that may run.
  uint64_t seed = 1;
};

// Reads the variables RUNNEL_EMULATOR_*. An invalid value ends the process with a sentence and status 64.
Settings settings_from_environment();

// Resets the machine as for a new process: nothing is allocated, there is no stream and no fault.
void start(const Settings& settings);
const Settings& settings();

}  // namespace runnel::emulator
