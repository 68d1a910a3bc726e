#include "cpu-runner/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "runner/system/process_memory.h"

namespace runnel {

Result<Memory> Memory::allocate(uint64_t bytes, const std::string& purpose, Pages pages) {
  // Memory of less than a huge page need not begin at one.
  const uint64_t slack = bytes < kHugePageBytes ? 0 : kHugePageBytes;
  const bool is_countable = bytes <= std::numeric_limits<size_t>::max() - slack;
  void* address = MAP_FAILED;
  errno = ENOMEM;
  if (is_countable)
    address = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    const std::string why = std::strerror(errno);
    return Error{ExitCode::kSystem,
                 "The system refuses " + std::to_string(bytes) + " bytes for " + purpose + ": " + why + ".",
                 MemoryShortage{bytes, available_memory_bytes()}};
  }
  Memory memory;
  memory.mapping_ = static_cast<std::byte*>(address);
  memory.mapping_bytes_ = bytes + slack;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  memory.data_ = memory.mapping_ + (slack == 0 ? 0 : -begin % kHugePageBytes);
  memory.bytes_ = bytes;
  // This is advice: other pages work as well.
  madvise(memory.data_, bytes, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return memory;
}

Memory::Memory(Memory&& other) noexcept {
  *this = std::move(other);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Memory::~Memory() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

}  // namespace runnel
