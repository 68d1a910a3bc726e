// What a row sees of the tokens before it, in blocks of the KV cache.
//
// The layers of a model are in groups (runner/models/kv_groups.h), each with its window: the number of
// positions that a row sees, its own included; 0: all. Of several groups the first sees all. A sequence has a
// table of blocks for each group, and gives back the blocks that none of its later rows sees.
//
// The next row has position num_cached_tokens and sees window positions up to its own. So positions up to
// num_cached_tokens - window are not seen any more, and the blocks that lie wholly among them are given back.
// Groups after the first keep what the row after the last full block sees, so that a sequence which loses its
// runner or its blocks finds all of its full blocks again. That takes no more blocks than a row may see
// anyway.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

// The fewest blocks with which a sequence of this many tokens can be computed.
uint32_t num_required_blocks(uint32_t num_tokens, uint32_t block_size, std::span<const uint32_t> windows);
// The most tokens of a sequence that can be computed with this many blocks. Only for fewer blocks than a
// sequence of any length requires.
uint64_t num_possible_tokens(uint32_t num_blocks, uint32_t block_size, std::span<const uint32_t> windows);

class KvWindows {
 public:
  KvWindows(uint32_t block_size, std::vector<uint32_t> windows);

  uint32_t block_size() const { return block_size_; }
  uint32_t num_groups() const { return static_cast<uint32_t>(windows_.size()); }
  bool has_window(uint32_t group) const { return windows_[group] > 0; }
  bool has_windows() const { return num_windows_ > 0; }

  uint32_t blocks_for(uint32_t num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }
  uint32_t num_required(uint32_t num_tokens) const {
    return num_required_blocks(num_tokens, block_size_, windows_);
  }
  uint64_t num_possible(uint32_t num_blocks) const {
    return num_possible_tokens(num_blocks, block_size_, windows_);
  }
  // Number of leading blocks of the group's table that are not kept for a row at this position and later
  // ones.
  uint32_t num_unseen(uint32_t group, uint32_t position) const;
  // Limit of the blocks of a group that a sequence of this many tokens holds while its prompt is computed, of
  // a cache of num_blocks.
  uint32_t num_at_once(uint32_t group, uint32_t num_tokens, uint32_t num_blocks) const;

 private:
  uint32_t block_size_;
  std::vector<uint32_t> windows_;  // by group
  uint32_t num_windows_;           // groups that have one
};

}  // namespace runnel
