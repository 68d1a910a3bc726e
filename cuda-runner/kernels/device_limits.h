// What the device of this thread has room for. Host code without kernels asks it too, so no name of nvcc's
// stands here.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace runnel {

// An attribute of this device; `otherwise` if it cannot be asked.
inline uint32_t device_attribute(cudaDeviceAttr attribute, uint32_t otherwise) {
  int device = 0;
  int value = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess)
    return otherwise;
  return static_cast<uint32_t>(value);
}

// The largest size of dynamic_shared() on this device: 64 KiB on 7.5, 99 on 8.6, 8.9 and 12.0, 227 on 9.0.
inline uint32_t max_dynamic_shared_bytes() {
  return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
}
inline uint32_t num_multiprocessors() {
  return device_attribute(cudaDevAttrMultiProcessorCount, 1);
}

// The room of this device for blocks.
struct BlockRoom {
  uint32_t multiprocessors = num_multiprocessors();
  uint32_t block_bytes = max_dynamic_shared_bytes();
  // The shared memory of a multiprocessor, 228 KiB on 9.0, and what each block takes of it beside its own.
  uint32_t shared_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0);
  uint32_t reserved_bytes = device_attribute(cudaDevAttrReservedSharedMemoryPerBlock, 0);

  // The blocks that a multiprocessor holds at a time, of those that its registers allow.
  uint32_t resident(uint32_t of_registers, uint32_t bytes_of_block) const {
    return std::clamp(shared_bytes / (bytes_of_block + reserved_bytes), 1u, of_registers);
  }
};

}  // namespace runnel
