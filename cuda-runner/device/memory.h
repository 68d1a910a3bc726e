// Memory by the byte, for the buffers of device_buffer.h and pinned_buffer.h.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>

#include "cuda-runner/device/handle.h"
#include "runner/result.h"

namespace runnel {

using DeviceMemory = Handle<void*, cudaFree>;
using PinnedMemory = Handle<void*, cudaFreeHost>;

// what: "the KV cache". Fail with kSystem, naming what is needed and what there is.
Result<DeviceMemory> allocate_device_memory(size_t bytes, const std::string& what);
Result<PinnedMemory> allocate_pinned_memory(size_t bytes, const std::string& what);

// Of a DeviceBuffer or PinnedBuffer, in place of what it had.
template <typename Buffer>
Result<void> allocate_into(Buffer& buffer, size_t count, const std::string& what) {
  Result<Buffer> allocated = Buffer::allocate(count, what);
  if (!allocated) return allocated.error();
  buffer = *std::move(allocated);
  return {};
}

}  // namespace runnel
