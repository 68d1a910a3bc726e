// What every call of the runtime begins and ends with.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "cuda-runner/emulator/fault.h"
#include "cuda-runner/emulator/machine.h"

namespace runnel::emulator {

// Says why, for a mistake that costs no more than this call.
inline cudaError_t refuse(cudaError_t error, const std::string& why) {
  std::fprintf(stderr, "Emulated device: %s.\n", why.c_str());
  return error;
}

// Success, or what is missing on this machine.
inline cudaError_t presence(const Machine& machine) {
  if (machine.settings.driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return machine.settings.num_devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

// Makes one call: alone, on a device that is there and lives. What ran meanwhile may have lost it.
template <typename Body>
cudaError_t call(const Body& body) {
  const std::lock_guard lock(machine_mutex());
  Machine& the_machine = machine();
  if (device_error() != cudaSuccess) return device_error();
  cudaError_t error = presence(the_machine);
  if (error == cudaSuccess) error = body(the_machine);
  if (device_error() != cudaSuccess) return device_error();
  if (error != cudaSuccess && error != cudaErrorNotReady) the_machine.last_error = error;
  return error;
}

// A call about a stream that is in use.
template <typename Body>
cudaError_t call_on(cudaStream_t stream, const Body& body) {
  return call([&](Machine& the_machine) {
    if (the_machine.streams.has(stream)) return body(the_machine);
    return refuse(cudaErrorInvalidResourceHandle,
                  stream == nullptr ? "the default stream is not emulated, give a stream of your own"
                                    : "there is no such stream");
  });
}

// For what a stream does not take while a graph is captured from it.
inline cudaError_t refuse_in_capture(CUstream_st& stream, const std::string& what) {
  stream.is_capture_broken = true;
  return refuse(cudaErrorStreamCaptureUnsupported, what + " cannot be captured");
}

}  // namespace runnel::emulator
