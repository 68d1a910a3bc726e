// Allocation of untyped memory, for the buffers of device_buffer.h and pinned_buffer.h.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "cuda-runner/device/handle.h"
#include "runner/result.h"

namespace runnel {

using DeviceMemory = Handle<void*, cudaFree>;
using PinnedMemory = Handle<void*, cudaFreeHost>;

// Memory of the device is given out in multiples of this.
inline constexpr size_t kDeviceAllocationBytes = 256;

// Bytes of the device's memory that an array of this size takes.
inline uint64_t device_bytes(size_t count, size_t bytes_each) {
  return (count * bytes_each + kDeviceAllocationBytes - 1) / kDeviceAllocationBytes * kDeviceAllocationBytes;
}

// what: names the memory in the error, as "the KV cache" does. Both fail with kSystem; the message says how
// many bytes are needed and, for the device, how many are free. The result is empty if bytes is 0.
Result<DeviceMemory> allocate_device_memory(size_t bytes, const std::string& what);
Result<PinnedMemory> allocate_pinned_memory(size_t bytes, const std::string& what);

// A DeviceBuffer or PinnedBuffer, and the number of elements that it must have room for.
template <typename Buffer>
struct Wanted {
  Buffer& buffer;
  size_t count;
};

template <typename Buffer>
Result<void> allocate(const std::string& what, const Wanted<Buffer>& wanted) {
  Result<Buffer> allocated = Buffer::allocate(wanted.count, what);
  if (!allocated) return allocated.error();
  wanted.buffer = *std::move(allocated);
  return {};
}

// Allocates the buffers in order. Stops at the first failure and returns its error.
template <typename... Buffers>
Result<void> allocate_all(const std::string& what, const Wanted<Buffers>&... wanted) {
  Result<void> result;
  static_cast<void>(((result = allocate(what, wanted), result.ok()) && ...));
  return result;
}

}  // namespace runnel
