// The frame of every call of the emulated runtime: lock, checks of the device, and the error to return.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "cuda-runner/emulator/fault.h"
#include "cuda-runner/emulator/machine.h"

namespace runnel::emulator {

// Prints the reason for an error of this one call. The device lives on.
inline cudaError_t refuse(cudaError_t error, const std::string& why) {
  std::fprintf(stderr, "Emulated device: %s.\n", why.c_str());
  return error;
}

// cudaSuccess, or the error for a missing device or a driver that is too old.
inline cudaError_t presence(const Machine& machine) {
  if (machine.settings.driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return machine.settings.num_devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

// Runs the body of one call under the lock, if there is a device and it is not lost. If work that ran in the
// call lost the device, returns the error of the device.
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

// Runs the body of a call about an existing stream.
template <typename Body>
cudaError_t call_on(cudaStream_t stream, const Body& body) {
  return call([&](Machine& the_machine) {
    if (the_machine.streams.has(stream)) return body(the_machine);
    return refuse(cudaErrorInvalidResourceHandle,
                  stream == nullptr ? "the default stream is not emulated, give a stream of your own"
                                    : "there is no such stream");
  });
}

// Refuses work that only the stream's own device may be given.
inline cudaError_t refuse_other_device(const CUstream_st& stream, const std::string& what) {
  return refuse(cudaErrorInvalidResourceHandle, what + " is given to a stream of device " +
                                                    std::to_string(stream.device) + ", and device " +
                                                    std::to_string(current_device) + " is current");
}

// Refuses an operation that cannot be captured, which breaks the capture of the stream.
inline cudaError_t refuse_in_capture(CUstream_st& stream, const std::string& what) {
  stream.captured->is_broken = true;
  return refuse(cudaErrorStreamCaptureUnsupported, what + " cannot be captured");
}

}  // namespace runnel::emulator
