// Memory that is mapped directly from the kernel, for weights and the KV cache: zeroed memory of this
// process, or a part of a file in memory. Parts that nobody writes to take no memory, and all memory that
// belongs to no file is returned to the system on release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "runner/result.h"
#include "runner/system/memory_file.h"

namespace runnel {

// The size of the pages that the system provides on the first write. Huge pages are for memory that is read
// as a whole. The system takes milliseconds to clear some of them, which is long in the middle of a step.
enum class Pages { kHuge, kSmall };
// What was mapped to be read must not be written to.
enum class Access { kRead, kWrite };

class Memory {
 public:
  static constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

  // Aligned to huge pages if there is at least one. Fails with kSystem; purpose ends the sentence "... bytes
  // for <purpose>".
  static Result<Memory> allocate(uint64_t bytes, const std::string& purpose, Pages pages = Pages::kHuge);

  // Bytes of a file from offset on, a multiple of huge pages, to which they are aligned as allocate aligns.
  // They may lie beyond the end of the file, which must have grown by the time of the first access. They stay
  // mapped when the file is closed. Fails with kSystem, as allocate does.
  static Result<Memory> map(const MemoryFile& file, uint64_t offset, uint64_t bytes, Access access,
                            const std::string& purpose);
  // Asks for pages of this size.
  void advise(Pages pages);
  // Makes memory that was mapped from this part of the file read-only, at the same address. The file counts
  // as no longer mapped for writing. Fails with kSystem.
  Result<void> give_up_writing(const MemoryFile& file, uint64_t offset);

  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  // data() and bytes() of new private memory, aligned, and nothing of it advised.
  static Result<Memory> reserve(uint64_t bytes, int protection, const std::string& purpose);
  Result<void> map_over(const MemoryFile& file, uint64_t offset, Access access);

  std::byte* mapping_ = nullptr;
  uint64_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// For arrays that begin as zeros. The system clears the pages of large ones on their first access, where a
// vector's own zeros would be written before.
template <typename T>
struct ZeroedAllocator {
  static_assert(alignof(T) <= alignof(std::max_align_t));
  using value_type = T;
  T* allocate(size_t count) {
    void* memory = std::calloc(count, sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  // A value without arguments is zero already.
  template <typename U>
  void construct(U*) {}
  bool operator==(const ZeroedAllocator&) const = default;
};
template <typename T>
using ZeroedVector = std::vector<T, ZeroedAllocator<T>>;

}  // namespace runnel
