// The memory of all weights, taken piece by piece from one mapping of huge pages. The page table stays short,
// and there are no gaps between matrices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu-runner/memory.h"
#include "runner/result.h"

namespace runnel {

class WeightArena {
 public:
  // Maps memory for this many bytes of tensors, with room for the rows and planes that tiles are filled up
  // with. Fails with kSystem.
  Result<void> expect(uint64_t tensor_bytes);

  // Returns zeroed bytes, aligned to kAlignment, that live as long as the arena. Maps more memory if expect()
  // was told too little. Fails with kSystem; purpose ends the sentence "... bytes for <purpose>".
  Result<std::byte*> take(uint64_t bytes, const std::string& purpose);

  // What take(bytes) adds to bytes().
  static uint64_t bytes_taken(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // Bytes taken so far.
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kAlignment = 64;

  std::vector<Memory> mappings_;
  uint64_t num_taken_ = 0;  // bytes of the last mapping
  uint64_t bytes_ = 0;
};

}  // namespace runnel
