#include "cpu-runner/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runner/process_memory.h"

namespace runnel {

Result<Memory> Memory::allocate(uint64_t bytes, const std::string& purpose) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    const std::string why = std::strerror(errno);
    return Error{ExitCode::kSystem,
                 "The system gives no " + std::to_string(bytes) + " bytes for " + purpose + ": " + why + ".",
                 MemoryShortage{bytes, available_memory_bytes()}};
  }
  // Advice: without huge pages it works as well, a little slower.
  madvise(address, bytes, MADV_HUGEPAGE);
  Memory memory;
  memory.data_ = static_cast<std::byte*>(address);
  memory.bytes_ = bytes;
  return memory;
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace runnel
