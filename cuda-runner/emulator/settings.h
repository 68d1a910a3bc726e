// What device is emulated, and how it fails. A test says so by start(); for a whole binary the environment
// does: docs/cuda.md, "The emulated device".
#pragma once

#include <cstdint>

namespace runnel::emulator {

// The newest driver that is too old for the runtime of runtime_api.h has a version below its own.
struct Settings {
  uint32_t num_devices = 1;  // or 0
  uint32_t compute_capability = 90;
  uint64_t memory_bytes = uint64_t{4} << 30;
  uint32_t driver_version = 13000;
  // The launch, counted from 1, at which the device dies; 0: it lives.
  uint64_t die_at_launch = 0;
  // Whether threads at one byte of device memory without an order between them are found. It takes time, and
  // 16 bytes for each byte that kernels use.
  bool finds_races = false;
  // Of the processor's time that a block may take.
  uint32_t max_block_ms = 120'000;
  // Of the order of blocks, the first thread of a block, and the order of streams that may run.
  uint64_t seed = 1;
};

// From RUNNEL_EMULATOR_*. A value that is none ends the process with a sentence and status 64.
Settings settings_from_environment();

// A new process, as far as the device is concerned: nothing allocated, no stream, no fault.
void start(const Settings& settings);
const Settings& settings();

}  // namespace runnel::emulator
