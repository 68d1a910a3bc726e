// The emulated calls about the device's memory and pinned memory of the host.
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda-runner/emulator/call.h"

using namespace runnel::emulator;

namespace {

// The alignment of pinned memory, and the byte that it is filled with, which shows reads that come too early.
constexpr size_t kPinnedBytes = 4096;
constexpr int kPinnedFill = 0xcd;

cudaError_t refuse_allocation_in_capture() {
  return refuse(cudaErrorStreamCaptureUnsupported, "memory is allocated or freed in a capture");
}

std::string describe_copy(const char* direction, size_t bytes) {
  return "A copy of " + std::to_string(bytes) + " bytes " + direction;
}

// The copies themselves. They run later than the call, and a captured copy any time later, so memory may have
// been freed in between.

void copy_to_device(Machine& machine, void* to, const void* from, size_t bytes) {
  if (!is_allocated(to, bytes) || !machine.is_pinned(from, bytes)) {
    lose_device(cudaErrorIllegalAddress,
                describe_copy("to the device", bytes) + " uses memory that was freed.");
    return;
  }
  std::memcpy(to, from, bytes);
  mark_written(to, bytes, kWritten);
  machine.num_upload_bytes += bytes;
}

void copy_to_host(const Machine& machine, void* to, const void* from, size_t bytes, bool is_pinned) {
  if (!is_allocated(from, bytes) || (is_pinned && !machine.is_pinned(to, bytes))) {
    lose_device(cudaErrorIllegalAddress,
                describe_copy("to the host", bytes) + " uses memory that was freed.");
  } else if (const size_t written = num_written(from, bytes); written < bytes) {
    lose_device(cudaErrorLaunchFailure, describe_copy("to the host", bytes) + " reads byte " +
                                            std::to_string(written) + ", which was never written.");
  } else {
    std::memcpy(to, from, bytes);
    const uint64_t right_until = machine.settings.flip_after_launch;
    if (right_until > 0 && machine.num_launches > right_until) *static_cast<uint8_t*>(to) ^= 1;
  }
}

}  // namespace

void Machine::copy_on_device(void* to, const void* from, size_t bytes) {
  if (!is_allocated(to, bytes) || !is_allocated(from, bytes)) {
    lose_device(cudaErrorIllegalAddress,
                describe_copy("on the device", bytes) + " uses memory that was freed.");
    return;
  }
  std::memmove(to, from, bytes);
  copy_states(to, from, bytes);
  if (owner_of(to) != owner_of(from)) num_peer_bytes += bytes;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return call([&](Machine& machine) {
    if (machine.breaks_capture()) return refuse_allocation_in_capture();
    *memory = machine.current().memory.allocate(bytes);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* memory) {
  return call([&](Machine& machine) {
    if (memory == nullptr) return cudaSuccess;
    if (machine.breaks_capture()) return refuse_allocation_in_capture();
    machine.run_all();
    for (OneDevice& device : machine.devices)
      if (device.memory.free(memory)) return cudaSuccess;
    return refuse(cudaErrorInvalidValue, "cudaFree of what cudaMalloc did not return, or of what was freed");
  });
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return call([&](Machine& machine) {
    if (flags != cudaHostAllocDefault) return refuse(cudaErrorInvalidValue, "flags of cudaHostAlloc");
    if (machine.breaks_capture()) return refuse_allocation_in_capture();
    const size_t rounded_bytes = (bytes / kPinnedBytes + 1) * kPinnedBytes;
    *memory = std::aligned_alloc(kPinnedBytes, rounded_bytes);
    if (*memory == nullptr) return cudaErrorMemoryAllocation;
    std::memset(*memory, kPinnedFill, rounded_bytes);
    machine.pinned.emplace(static_cast<std::byte*>(*memory), Pinned{Pinned::Pointer(*memory), bytes});
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return call([&](Machine& machine) {
    if (memory == nullptr) return cudaSuccess;
    if (machine.breaks_capture()) return refuse_allocation_in_capture();
    machine.run_all();
    if (machine.pinned.erase(static_cast<std::byte*>(memory)) == 0)
      return refuse(cudaErrorInvalidValue, "cudaFreeHost of what cudaHostAlloc did not return");
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call_on(stream, [&](Machine& machine) {
    if (bytes == 0) return cudaSuccess;
    const bool to_device = kind != cudaMemcpyDeviceToHost;
    const bool from_device = kind != cudaMemcpyHostToDevice;
    if ((to_device && !is_allocated(to, bytes)) || (from_device && !is_allocated(from, bytes)))
      return refuse(cudaErrorInvalidValue,
                    "cudaMemcpyAsync of " + std::to_string(bytes) + " bytes beyond what is allocated");
    if (to_device && from_device) {
      stream->add([=, &machine] { machine.copy_on_device(to, from, bytes); });
      return cudaSuccess;
    }
    const bool is_pinned = machine.is_pinned(to_device ? from : to, bytes);
    if (stream->captured != nullptr && !is_pinned)
      return refuse_in_capture(*stream, "a copy from or to memory that is not pinned");
    if (to_device && !is_pinned)
      return refuse(
          cudaErrorInvalidValue,
          "cudaMemcpyAsync of " + std::to_string(bytes) +
              " bytes from memory of the host that is not pinned, which the driver may read before the call "
              "returns or after");
    if (to_device) {
      stream->add([=, &machine] { copy_to_device(machine, to, from, bytes); });
    } else {
      stream->add([=, &machine] { copy_to_host(machine, to, from, bytes, is_pinned); });
      // As in CUDA, a copy to memory that is not pinned is done when the call returns.
      if (!is_pinned) stream->run_all();
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return call_on(stream, [&](Machine& machine) {
    if (width == 0 || height == 0) return cudaSuccess;
    if (kind != cudaMemcpyDefault || width > to_pitch || width > from_pitch)
      return refuse(cudaErrorInvalidValue,
                    "cudaMemcpy2DAsync of another kind than cudaMemcpyDefault, or of rows that overlap");
    const auto bytes_of = [&](size_t pitch) { return (height - 1) * pitch + width; };
    const bool is_pinned = machine.is_pinned(from, bytes_of(from_pitch));
    if (!is_allocated(to, bytes_of(to_pitch)) || (!is_pinned && !is_allocated(from, bytes_of(from_pitch))))
      return refuse(cudaErrorInvalidValue, "cudaMemcpy2DAsync of " + std::to_string(height) + " rows of " +
                                               std::to_string(width) + " bytes beyond what is allocated");
    stream->add([=, &machine] {
      for (size_t row = 0; row < height; ++row) {
        std::byte* const to_row = static_cast<std::byte*>(to) + row * to_pitch;
        const std::byte* const from_row = static_cast<const std::byte*>(from) + row * from_pitch;
        if (is_pinned) {
          copy_to_device(machine, to_row, from_row, width);
        } else {
          machine.copy_on_device(to_row, from_row, width);
        }
      }
    });
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return call_on(stream, [&](Machine&) {
    if (bytes == 0) return cudaSuccess;
    if (stream->device != current_device) return refuse_other_device(*stream, "cudaMemsetAsync");
    if (!is_allocated(memory, bytes))
      return refuse(cudaErrorInvalidValue,
                    "cudaMemsetAsync of " + std::to_string(bytes) + " bytes beyond what is allocated");
    stream->add([=] {
      if (!is_allocated(memory, bytes)) {
        lose_device(cudaErrorIllegalAddress, "cudaMemsetAsync of memory that was freed.");
        return;
      }
      std::memset(memory, value, bytes);
      mark_written(memory, bytes, kFilled);
    });
    return cudaSuccess;
  });
}
