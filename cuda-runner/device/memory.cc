#include "cuda-runner/device/memory.h"

namespace runnel {

Result<DeviceMemory> allocate_device_memory(size_t bytes, const std::string& what) {
  if (bytes == 0) return DeviceMemory();
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is returned below
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    expect_success(cudaMemGetInfo(&free_bytes, &total_bytes), "asking how much memory is free");
    return Error{ExitCode::kSystem,
                 "Not enough free memory on the GPU: " + what + " needs " + std::to_string(bytes) +
                     " bytes; " + std::to_string(free_bytes) + " of " + std::to_string(total_bytes) +
                     " bytes are free. Lower --gpu-memory-utilization, --kv-cache-bytes or "
                     "--max-num-batched-tokens, use a "
                     "smaller model, or stop other programs that use the GPU.",
                 MemoryShortage{bytes, free_bytes}};
  }
  expect_success(error, "allocating memory");
  return DeviceMemory(memory);
}

Result<PinnedMemory> allocate_pinned_memory(size_t bytes, const std::string& what) {
  if (bytes == 0) return PinnedMemory();
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is returned below
    return Error{ExitCode::kSystem,
                 std::to_string(bytes) + " bytes of pinned (page-locked) memory for " + what +
                     " could not be allocated. Free some memory, or raise the limit of locked memory.",
                 MemoryShortage{bytes, std::nullopt}};
  }
  expect_success(error, "allocating pinned memory");
  return PinnedMemory(memory);
}

}  // namespace runnel
