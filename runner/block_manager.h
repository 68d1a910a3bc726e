// Blocks of the KV cache: who holds which, and what they contain. Bookkeeping only; the memory is the
// backend's.
//
// A block that was filled is remembered by a hash that chains over all tokens before it, so a sequence that
// begins with the same tokens shares it instead of computing it again. A block nobody holds keeps its content
// until it is reused, first freed first, and is revived if somebody wants that content before. Algorithm:
// nano-vLLM's block manager (github.com/GeeeekExplorer/nano-vllm, nanovllm/engine/block_manager.py), step for
// step.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runner/sequence.h"

namespace runnel {

class BlockManager {
 public:
  BlockManager(uint32_t num_blocks, uint32_t block_size);

  // Whether the blocks of all tokens the sequence has can be had now, and if so how many of them, from the
  // first on, need not be computed. The last block is never among these: its last row gives the next token. A
  // sequence that still wants scores of its prompt finds none, since it needs every row.
  std::optional<uint32_t> can_allocate(const Sequence& sequence) const;
  // Takes them, with the answer of can_allocate. The sequence holds no block before.
  void allocate(Sequence& sequence, uint32_t num_cached_blocks);

  // Whether the last token of the sequence has a place, and giving it one.
  bool can_append(const Sequence& sequence) const;
  void may_append(Sequence& sequence);

  // Remembers the blocks that the scheduled tokens fill, now that they are computed.
  void remember(const Sequence& sequence);

  // Gives back everything the sequence holds; its tokens have to be computed again.
  void deallocate(Sequence& sequence);

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t num_free_blocks() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t blocks_for(uint32_t num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }

  // CHECKs that lists, counts and hashes agree, given every sequence that may hold blocks. For tests.
  void check_integrity(std::span<const Sequence* const> sequences) const;

 private:
  struct Block {
    uint32_t num_holders = 0;
    std::optional<uint64_t> hash;     // of a full block whose content is known
    std::vector<uint32_t> token_ids;  // that content, since hashes may collide
    std::list<uint32_t>::iterator place;
  };

  std::span<const uint32_t> tokens_of_block(const Sequence& sequence, uint32_t index) const;
  // The block that holds these tokens after that chain of blocks.
  std::optional<uint32_t> find(uint64_t hash, std::span<const uint32_t> token_ids) const;
  uint32_t take_free_block();
  void hold(uint32_t block);

  uint32_t block_size_;
  std::vector<Block> blocks_;
  std::list<uint32_t> free_;  // first in, first out
  std::list<uint32_t> used_;  // in no order; keeps the list nodes, so that nothing is allocated while serving
  std::unordered_map<uint64_t, uint32_t> block_of_hash_;
};

// XXH64 (xxhash.com), seed 0, of the previous block's hash if there is one, as 8 bytes, and the ids as 64-bit
// integers, all little-endian.
uint64_t hash_block(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids);

}  // namespace runnel
