// Memory by the byte, for the buffers of device_buffer.h and pinned_buffer.h.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "cuda-runner/device/handle.h"
#include "runner/result.h"

namespace runnel {

using DeviceMemory = Handle<void*, cudaFree>;
using PinnedMemory = Handle<void*, cudaFreeHost>;

// what: "the KV cache". Fail with kSystem, naming what is needed and what there is.
Result<DeviceMemory> allocate_device_memory(size_t bytes, const std::string& what);
Result<PinnedMemory> allocate_pinned_memory(size_t bytes, const std::string& what);

}  // namespace runnel
