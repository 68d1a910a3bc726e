// Zeroed memory straight from the kernel, for weights and the KV cache: page-aligned, in huge pages where the
// system gives them, untouched parts cost nothing, and all of it goes back when it is released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runner/result.h"

namespace runnel {

class Memory {
 public:
  // Fails with kSystem; purpose ends the sentence "... bytes for <purpose>".
  static Result<Memory> allocate(uint64_t bytes, const std::string& purpose);

  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace runnel
