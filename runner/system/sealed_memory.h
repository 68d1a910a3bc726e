// Memory behind a descriptor, which outlives the process that writes to it: a memfd whose size is sealed. An
// unsealed one could be made smaller while it is mapped, and a read of it would then end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runner/result.h"

namespace runnel {

// A part of a SealedMemory in this process. It stays mapped when the descriptor is closed.
class SharedMapping {
 public:
  SharedMapping() = default;
  explicit SharedMapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  // What was mapped for reading must not be written to.
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class SealedMemory {
 public:
  enum class Access { kRead, kWrite };

  // Makes one of this size. Pages that nobody writes to take no memory. Fails with kSystem.
  static Result<SealedMemory> create(const std::string& name, uint64_t num_bytes);
  // Takes an inherited descriptor. Fails with kTryAgain, naming the flag that it came by, if it is no memory
  // of a fixed size. Must be called before the process confines itself.
  static Result<SealedMemory> inherit(int descriptor, const std::string& flag);

  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;
  ~SealedMemory();

  int descriptor() const { return descriptor_; }
  uint64_t num_bytes() const { return num_bytes_; }
  // Maps a part, which must lie within the memory and begin at a page. Fails with kSystem.
  Result<SharedMapping> map(uint64_t offset, uint64_t num_bytes, Access access) const;

 private:
  SealedMemory(int descriptor, uint64_t num_bytes) : descriptor_(descriptor), num_bytes_(num_bytes) {}

  int descriptor_ = -1;
  uint64_t num_bytes_ = 0;
};

}  // namespace runnel
