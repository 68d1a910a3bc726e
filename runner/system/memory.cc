#include "runner/system/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "runner/check.h"
#include "runner/system/process_memory.h"

namespace runnel {

Result<Memory> Memory::reserve(uint64_t bytes, int protection, const std::string& purpose) {
  // Memory of less than a huge page need not begin at one.
  const uint64_t slack = bytes < kHugePageBytes ? 0 : kHugePageBytes;
  const bool is_countable = bytes <= std::numeric_limits<size_t>::max() - slack;
  void* address = MAP_FAILED;
  errno = ENOMEM;
  if (is_countable) address = mmap(nullptr, bytes + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
  return memory;
}

Result<Memory> Memory::allocate(uint64_t bytes, const std::string& purpose, Pages pages) {
  Result<Memory> memory = reserve(bytes, PROT_READ | PROT_WRITE, purpose);
  if (memory) memory->advise(pages);
  return memory;
}

// Other pages work as well.
void Memory::advise(Pages pages) {
  madvise(data_, bytes_, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

Result<Memory> Memory::map(const MemoryFile& file, uint64_t offset, uint64_t bytes, Access access,
                           const std::string& purpose) {
  // The pages of a file have the sizes that they got when they were written. They are mapped as huge pages
  // where address and offset are multiples of such.
  CHECK(offset % kHugePageBytes == 0);
  Result<Memory> memory = reserve(bytes, PROT_NONE, purpose);
  if (!memory) return memory;
  if (const auto mapped = memory->map_over(file, offset, access); !mapped) return mapped.error();
  return memory;
}

Result<void> Memory::give_up_writing(const MemoryFile& file, uint64_t offset) {
  return map_over(file, offset, Access::kRead);
}

Result<void> Memory::map_over(const MemoryFile& file, uint64_t offset, Access access) {
  const bool is_writable = access == Access::kWrite;
  const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int descriptor = is_writable ? file.descriptor() : file.reader();
  const void* const mapped =
      mmap(data_, bytes_, protection, MAP_SHARED | MAP_FIXED, descriptor, static_cast<off_t>(offset));
  if (mapped == data_) return {};
  const std::string why = std::strerror(errno);
  return Error{ExitCode::kSystem, "The system refuses to map " + std::to_string(bytes_) +
                                      " bytes of a file in memory: " + why + "."};
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
