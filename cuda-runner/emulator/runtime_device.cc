// The emulated calls about the device, its kernels and errors.
#include <cstring>
#include <string>

#include "cuda-runner/emulator/call.h"
#include "cuda-runner/emulator/launch_bounds.h"

using namespace runnel::emulator;

namespace {

cudaError_t check_device(const Machine& machine, int device) {
  const bool is_there = device >= 0 && static_cast<uint32_t>(device) < machine.settings.num_devices;
  return is_there ? cudaSuccess : cudaErrorInvalidDevice;
}

int major_of(const Machine& machine) {
  return static_cast<int>(machine.settings.compute_capability / 10);
}

int minor_of(const Machine& machine) {
  return static_cast<int>(machine.settings.compute_capability % 10);
}

// The shared memory of a multiprocessor, and what each block takes of it beside its own, as the CUDA C++
// Programming Guide lists them for compute capabilities.
int shared_bytes_of_multiprocessor(const Machine& machine) {
  switch (machine.settings.compute_capability) {
    case 70:
      return 96 * 1024;
    case 75:
      return 64 * 1024;
    case 80:
    case 87:
      return 164 * 1024;
    case 90:
    case 100:
    case 110:
      return 228 * 1024;
  }
  return 100 * 1024;
}
int reserved_shared_bytes(const Machine& machine) {
  return machine.settings.compute_capability < 80 ? 0 : 1024;
}

// The largest shared memory of a block.
int max_shared_bytes(const Machine& machine) {
  return shared_bytes_of_multiprocessor(machine) - reserved_shared_bytes(machine);
}

}  // namespace

cudaError_t cudaGetLastError() {
  const std::lock_guard lock(machine_mutex());
  if (device_error() != cudaSuccess) return device_error();
  return std::exchange(machine().last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(machine_mutex());
  return device_error() != cudaSuccess ? device_error() : machine().last_error;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const std::lock_guard lock(machine_mutex());
  *version = static_cast<int>(machine().settings.driver_version);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return call([&](Machine& machine) {
    *count = static_cast<int>(machine.settings.num_devices);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call([&](Machine&) {
    *device = current_device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&](Machine& machine) {
    const cudaError_t error = check_device(machine, device);
    if (error != cudaSuccess) return error;
    current_device = device;
    machine.current().has_context = true;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return call([&](Machine& machine) {
    attributes->maxThreadsPerBlock = static_cast<int>(max_threads_of(kernel));
    return machine.current().load_kernel(kernel, machine.settings.kernel_bytes) ? cudaSuccess
                                                                                : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([&](Machine& machine) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
      return refuse(cudaErrorInvalidValue,
                    "a kernel's attribute " + std::to_string(attribute) + " is set, which is not emulated");
    if (value < 0 || value > max_shared_bytes(machine))
      return refuse(cudaErrorInvalidValue, "a kernel asks for " + std::to_string(value) +
                                               " bytes of dynamic shared memory; the device has " +
                                               std::to_string(max_shared_bytes(machine)));
    machine.current().dynamic_shared_bytes[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&](Machine& machine) {
    const cudaError_t error = check_device(machine, device);
    if (error != cudaSuccess) return error;
    *properties = {};
    std::strcpy(properties->name, "emulated GPU");
    properties->totalGlobalMem = machine.settings.memory_bytes;
    properties->major = major_of(machine);
    properties->minor = minor_of(machine);
    properties->multiProcessorCount = static_cast<int>(machine.settings.num_multiprocessors);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&](Machine& machine) {
    const cudaError_t error = check_device(machine, device);
    if (error != cudaSuccess) return error;
    switch (attribute) {
      case cudaDevAttrMultiProcessorCount:
        *value = static_cast<int>(machine.settings.num_multiprocessors);
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = shared_bytes_of_multiprocessor(machine);
        return cudaSuccess;
      case cudaDevAttrReservedSharedMemoryPerBlock:
        *value = reserved_shared_bytes(machine);
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = max_shared_bytes(machine);
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = major_of(machine);
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = minor_of(machine);
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&](Machine& machine) {
    for (const int number : {device, peer})
      if (const cudaError_t error = check_device(machine, number); error != cudaSuccess) return error;
    *can = device == peer ? 0 : 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call([&](Machine& machine) {
    if (const cudaError_t error = check_device(machine, peer); error != cudaSuccess) return error;
    if (flags != 0 || peer == current_device)
      return refuse(cudaErrorInvalidValue, "cudaDeviceEnablePeerAccess with flags, or of the current device");
    return machine.current().peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([](Machine& machine) {
    if (machine.breaks_capture())
      return refuse(cudaErrorStreamCaptureUnsupported, "the device is synchronised in a capture");
    machine.run_all();
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call([&](Machine& machine) {
    *free_bytes = machine.current().memory.free_bytes();
    *total_bytes = machine.current().memory.total_bytes();
    return cudaSuccess;
  });
}
