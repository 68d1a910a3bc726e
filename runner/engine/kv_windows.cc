#include "runner/engine/kv_windows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

// Limit of the blocks of a group that are required, however long the sequence is.
uint64_t max_blocks_of(uint32_t window, uint32_t block_size) {
  if (window == 0) return std::numeric_limits<uint64_t>::max();
  // What a row sees may begin in the middle of a block.
  return uint64_t{window - 1} / block_size + 2;
}

}  // namespace

uint32_t num_required_blocks(uint32_t num_tokens, uint32_t block_size, std::span<const uint32_t> windows) {
  const uint32_t num_for_all = num_tokens / block_size + (num_tokens % block_size == 0 ? 0 : 1);
  uint32_t num_blocks = 0;
  for (const uint32_t window : windows)
    num_blocks += static_cast<uint32_t>(std::min<uint64_t>(num_for_all, max_blocks_of(window, block_size)));
  return num_blocks;
}

uint64_t num_possible_tokens(uint32_t num_blocks, uint32_t block_size, std::span<const uint32_t> windows) {
  uint64_t possible = 0;  // blocks of tokens
  uint64_t beyond = uint64_t{num_blocks} + 1;
  while (beyond - possible > 1) {
    const uint64_t middle = possible + (beyond - possible) / 2;
    uint64_t required = 0;
    for (const uint32_t window : windows) required += std::min(middle, max_blocks_of(window, block_size));
    (required <= num_blocks ? possible : beyond) = middle;
  }
  return possible * block_size;
}

KvWindows::KvWindows(uint32_t block_size, std::vector<uint32_t> windows)
    : block_size_(block_size),
      windows_(std::move(windows)),
      num_windows_(static_cast<uint32_t>(windows_.size() - std::ranges::count(windows_, 0u))) {
  CHECK(block_size > 0 && !windows_.empty() && (windows_.size() == 1 || windows_.front() == 0));
}

uint32_t KvWindows::num_unseen(uint32_t group, uint32_t position) const {
  const uint32_t window = windows_[group];
  // A prefix ends with a whole block, so what the row after it sees is kept until the next block is full.
  if (group > 0) position -= position % block_size_;
  if (window == 0 || position < window) return 0;
  return (position - window + 1) / block_size_;
}

uint32_t KvWindows::num_at_once(uint32_t group, uint32_t num_tokens, uint32_t num_blocks) const {
  const uint32_t num_for_all = blocks_for(num_tokens);
  if (windows_[group] == 0) return num_for_all;
  // As many rows again as a row sees, so that parts of a prompt are long, if all groups have room for them.
  const uint32_t required = num_required_blocks(num_tokens, block_size_, {&windows_[group], 1});
  const uint32_t required_of_all = num_required(num_tokens);
  const uint32_t num_left = num_blocks - std::min(num_blocks, required_of_all);
  return std::min({num_for_all, required + std::min(required, num_left / num_windows_), num_blocks});
}

}  // namespace runnel
