// Blocks of the KV cache: who holds which, and what they contain. Bookkeeping only; the memory is the
// backend's.
//
// A block that was filled is remembered by a hash that chains over all tokens before it, so a sequence that
// begins with the same tokens shares it instead of computing it again. A block nobody holds keeps its content
// until it is reused, first freed first, and is revived if somebody wants that content before. Algorithm:
// nano-vLLM's block manager (github.com/GeeeekExplorer/nano-vllm, nanovllm/engine/block_manager.py), step for
// step, but for what follows.
//
// Hashes are never trusted, since whoever writes prompts can make them collide. Each content (all tokens up
// to a block's end, and the salt) has a number of its own, a block knows the number of the content before it,
// and a lookup compares that number, the salt and the ids. A content that is known to no block any more gets
// a new number when it is computed again; blocks that followed the old one are then not found, and age out.
//
// With a sliding window a sequence gives back the blocks that none of its later rows sees, and kNoBlock takes
// their place. The next row has position num_cached_tokens and sees window positions up to its own, so
// positions up to num_cached_tokens - window are seen no more, and the blocks that lie wholly among them go.
// A prefix is found as without a window, from its first block on as far as all blocks are there; those that
// the next row does not see are then not held.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runner/sequence.h"

namespace runnel {

// XXH64 (xxhash.com), seed 0, of the previous block's hash if there is one, as 8 bytes, and the ids as 64-bit
// integers, all little-endian.
uint64_t hash_block(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids);

class BlockManager {
 public:
  using Hash = uint64_t (*)(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids);

  // window: positions that a row sees, its own included; 0: all. Tests bring hashes that collide.
  BlockManager(uint32_t num_blocks, uint32_t block_size, uint32_t window = 0, Hash hash = hash_block);

  // Whether the blocks of all tokens the sequence has can be had now, and if so how many of them, from the
  // first on, need not be computed. The last block is never among these: its last row gives the next token. A
  // sequence that still wants scores of its prompt finds none, since it needs every row.
  std::optional<uint32_t> can_allocate(const Sequence& sequence) const;
  // Takes them, with the answer of can_allocate. The sequence holds no block before.
  void allocate(Sequence& sequence, uint32_t num_cached_blocks);

  // Whether the last token of the sequence has a place, and giving it one.
  bool can_append(const Sequence& sequence) const;
  void may_append(Sequence& sequence);

  // Places behind the last token that drafts can have from what is free, and giving them theirs.
  uint32_t num_draft_places(const Sequence& sequence) const;
  void append_drafts(Sequence& sequence);

  // The scheduled tokens are computed: they count as cached, and the blocks they fill are remembered. Those
  // that have left the window are given back, and those that only drafts needed which are gone.
  void advance(Sequence& sequence);

  // Gives back everything the sequence holds; its tokens have to be computed again.
  void deallocate(Sequence& sequence);

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t num_free_blocks() const { return static_cast<uint32_t>(free_.size()); }
  // Free ones that a lookup may still find.
  uint32_t num_reusable_blocks() const { return num_reusable_; }
  uint32_t blocks_for(uint32_t num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }

  // CHECKs that lists, counts and hashes agree, given every sequence that may hold blocks. For tests.
  void check_integrity(std::span<const Sequence* const> sequences) const;

 private:
  struct Block {
    uint32_t num_holders = 0;
    std::optional<uint64_t> hash;  // while a lookup may find it; then it is the one that block_of_hash_ names
    uint64_t content = 0;          // number of what it holds, everything before it included
    uint64_t previous_content = 0;
    std::string salt;
    std::vector<uint32_t> token_ids;
    std::list<uint32_t>::iterator place;
  };

  std::span<const uint32_t> tokens_of_block(const Sequence& sequence, uint32_t index) const;
  // Leading blocks of the table that a row at this position and later ones do not see.
  uint32_t num_unseen_blocks(uint32_t position) const;
  // The blocks that hold the sequence's first tokens, as far as all are there, but at most so many.
  std::vector<uint32_t> find_prefix(const Sequence& sequence, uint32_t max_blocks) const;
  // The block that holds the sequence's block of this index, if the chain stands before it.
  std::optional<uint32_t> find(const BlockChain& chain, uint64_t hash, const Sequence& sequence,
                               uint32_t index) const;
  void remember(Sequence& sequence, uint32_t index);
  void forget(uint32_t id);
  void give_back_unseen(Sequence& sequence);
  void give_back_unused(Sequence& sequence);
  uint32_t take_free_block();
  void hold(uint32_t id);
  void release(uint32_t id);

  uint32_t block_size_;
  uint32_t window_;
  Hash hash_;
  std::vector<Block> blocks_;
  std::list<uint32_t> free_;  // first in, first out
  std::list<uint32_t> used_;  // in no order; keeps the list nodes, so that nothing is allocated while serving
  std::unordered_map<uint64_t, uint32_t> block_of_hash_;
  uint64_t last_content_ = 0;
  uint32_t num_reusable_ = 0;
};

}  // namespace runnel
