#include "cpu-runner/matrix/weight_arena.h"

#include <algorithm>
#include <utility>

namespace runnel {

Result<void> WeightArena::expect(uint64_t tensor_bytes) {
  // Pages that nobody writes to cost nothing, so there is ample room for filling up.
  Result<Memory> memory = Memory::allocate(tensor_bytes + tensor_bytes / 16, "the model's weights");
  if (!memory) return memory.error();
  mappings_.push_back(*std::move(memory));
  num_taken_ = 0;
  return {};
}

Result<std::byte*> WeightArena::take(uint64_t bytes, const std::string& purpose) {
  const uint64_t size = bytes_taken(bytes);
  if (mappings_.empty() || size > mappings_.back().bytes() - num_taken_) {
    // Small matrices may take several times their size in the file.
    Result<Memory> memory = Memory::allocate(std::max(size, Memory::kHugePageBytes), purpose);
    if (!memory) return memory.error();
    mappings_.push_back(*std::move(memory));
    num_taken_ = 0;
  }
  std::byte* const data = mappings_.back().data() + num_taken_;
  num_taken_ += size;
  bytes_ += size;
  return data;
}

}  // namespace runnel
