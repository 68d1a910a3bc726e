// The memory of all weights, taken piece by piece from one mapping of huge pages: a table of pages that is
// short, and nothing between one matrix and the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu-runner/memory.h"
#include "runner/result.h"

namespace runnel {

class WeightArena {
 public:
  // Maps what so many bytes of tensors take in tiles, where rows and planes are filled up. Fails with
  // kSystem.
  Result<void> expect(uint64_t tensor_bytes);

  // Zeros, aligned to kAlignment, for as long as the arena lives. Maps more where too little was expected.
  // Fails with kSystem; purpose ends the sentence "... bytes for <purpose>".
  Result<std::byte*> take(uint64_t bytes, const std::string& purpose);

  // Taken by now.
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kAlignment = 64;

  std::vector<Memory> mappings_;
  uint64_t num_taken_ = 0;  // of the last mapping
  uint64_t bytes_ = 0;
};

}  // namespace runnel
