// The blocks of the KV cache: which sequences hold them, and what they contain. This is bookkeeping only; the
// backend owns the memory.
//
// A filled block is remembered by a hash that chains over all tokens before it, so a sequence that begins
// with the same tokens shares the block instead of computing it again. A block without a holder keeps its
// content until it is reused, first freed first, and is revived if a sequence needs the content before that.
// The algorithm is that of nano-vLLM's block manager (github.com/GeeeekExplorer/nano-vllm,
// nanovllm/engine/block_manager.py), step for step, with the following changes.
//
// Hashes are not trusted, since an author of prompts can make them collide. Each content (all tokens up to
// the end of a block, and the salt) has a number, a block knows the number of the content before it, and a
// lookup compares that number, the salt and the ids. A content that no block has any more gets a new number
// when it is computed again. Blocks that followed the old number are then not found, and age out.
//
// With a sliding window, a sequence gives back the blocks that none of its later rows sees, and kNoBlock
// takes their place. The next row has position num_cached_tokens and sees window positions up to its own. So
// positions up to num_cached_tokens - window are not seen any more, and the blocks that lie wholly among them
// are given back. A prefix is found as without a window, from the first block on as far as all blocks are
// present. The blocks of the prefix that the next row does not see are not held. A sequence also takes no
// more blocks than it needs at once (num_at_once): as rows of its prompt leave the window, it takes blocks
// for the following rows. So a sequence may be longer than the cache.
//
// If layers differ in what they see, they are in groups (runner/models/kv_groups.h). A sequence has a table
// for each group, all take their blocks from the same ones, and each group gives back what its own window has
// left. The first group has no window then, and its blocks tell what a text begins with, as above. A block of
// another group belongs to a block of the first one by the number of its content. A prefix ends where all
// groups have what the next row sees: the last blocks within their windows are enough. So that a sequence
// which loses its runner or its blocks finds all of its full blocks again, the groups keep what the row after
// the last full block sees. That takes no more blocks than a row may see anyway.
//
// With a KvIndex, what is remembered outlives the process: the next manager begins with the remembered blocks
// of the last one, as if all sequences had just given theirs back. The bytes of such a block are checked
// before the first sequence shares it.
//
// With KvSources, a sequence that other runners have computed gets blocks from their caches. Such a block is
// copied, and from then on one like those that were computed here.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runner/engine/kv_index.h"
#include "runner/engine/kv_sources.h"
#include "runner/engine/sequence.h"

namespace runnel {

// XXH64 (xxhash.com), seed 0, of the hash of the previous block if there is one, as 8 bytes, and the ids as
// 64-bit integers, all little-endian.
uint64_t hash_block(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids);

// The fewest blocks with which a sequence of this many tokens can be computed. windows: as in BlockManager.
uint32_t num_required_blocks(uint32_t num_tokens, uint32_t block_size, std::span<const uint32_t> windows);
// The most tokens of a sequence that can be computed with this many blocks. Only for fewer blocks than a
// sequence of any length requires.
uint64_t num_possible_tokens(uint32_t num_blocks, uint32_t block_size, std::span<const uint32_t> windows);

class BlockManager {
 public:
  using Hash = uint64_t (*)(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids);

  // windows: number of positions that a row sees in the layers of each group, its own included; 0: all. Of
  // several groups the first sees all. Tests bring hashes that collide. index, sources: must outlive the
  // manager; null: nothing outlives it, and there are no others. Sources need an index.
  BlockManager(uint32_t num_blocks, uint32_t block_size, std::vector<uint32_t> windows = {0},
               Hash hash = hash_block, KvIndex* index = nullptr, const KvSources* sources = nullptr);

  // Returns nothing if the blocks that the sequence takes at once are not available now. Otherwise returns
  // how many blocks, from the first on, need not be computed. The last block is never one of them, since its
  // last row gives the next token. A sequence that needs all its rows finds none (see
  // Sequence::needs_all_rows).
  std::optional<uint32_t> can_allocate(const Sequence& sequence);
  // Takes the blocks, with the result of can_allocate. The sequence must not hold blocks.
  void allocate(Sequence& sequence, uint32_t num_cached_blocks);

  // Copies what follows the cached tokens of an allocated sequence from the caches that it names, as far as
  // it is there. Returns how many blocks of tokens. The last one is never among them.
  uint32_t copy_from_sources(Sequence& sequence);

  // num_places: number of tokens after the cached ones that have a place in each group. extend: takes free
  // blocks for more tokens, as many as the sequence may have at once.
  uint32_t num_places(const Sequence& sequence) const;
  void extend(Sequence& sequence);

  // can_append: whether there is a place for the last token of the sequence. may_append: takes a block for it
  // if it needs one.
  bool can_append(const Sequence& sequence) const;
  void may_append(Sequence& sequence);

  // num_draft_places: places after the last token that drafts can have from free blocks. append_drafts: takes
  // the blocks for them.
  uint32_t num_draft_places(const Sequence& sequence) const;
  void append_drafts(Sequence& sequence);

  // Call it when the scheduled tokens have been computed. They count as cached, and the blocks that they fill
  // are remembered. Gives back the blocks that have left the window, and those that only wrong drafts needed.
  void advance(Sequence& sequence);

  // Gives back all blocks of the sequence. Its tokens must be computed again.
  void deallocate(Sequence& sequence);

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t num_free_blocks() const { return static_cast<uint32_t>(free_.size()); }
  // Free blocks that a lookup may still find.
  uint32_t num_reusable_blocks() const { return num_reusable_; }
  // Blocks of an earlier process that a lookup could find at the start, and those that were copied from other
  // caches; blocks whose entry or bytes were damaged.
  uint64_t num_adopted_blocks() const { return num_adopted_; }
  uint64_t num_dropped_blocks() const { return num_dropped_; }
  uint32_t blocks_for(uint32_t num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }
  uint32_t num_required(uint32_t num_tokens) const {
    return num_required_blocks(num_tokens, block_size_, windows_);
  }
  uint64_t num_possible_tokens() const {
    return runnel::num_possible_tokens(num_blocks(), block_size_, windows_);
  }

  // For tests: CHECKs that lists, counts and hashes agree. sequences must include every sequence that holds
  // blocks.
  void check_integrity(std::span<const Sequence* const> sequences) const;

 private:
  struct Block {
    uint32_t num_holders = 0;
    uint32_t group = 0;  // of which it has a content, if it has a hash
    // Set while a lookup may find this block; blocks_of_hash_ of its group then has this block for it.
    std::optional<uint64_t> hash;
    uint64_t content = 0;  // number of the content, which includes everything before the block
    uint64_t previous_content = 0;
    std::string salt;
    std::vector<uint32_t> token_ids;
    // The checksum of an adopted block whose bytes nobody has checked yet.
    std::optional<uint64_t> unchecked;
    std::list<uint32_t>::iterator place;
  };

  using Tables = std::vector<std::vector<uint32_t>>;
  // What is present of the first tokens of a sequence.
  struct Prefix {
    uint32_t num_blocks;
    Tables tables;  // of so many blocks; kNoBlock where the next row does not see
    BlockChain chain;
  };

  uint32_t num_groups() const { return static_cast<uint32_t>(windows_.size()); }
  std::span<const uint32_t> tokens_of_block(const Sequence& sequence, uint32_t index) const;
  // Number of leading blocks of the group's table that are not kept for a row at this position and later
  // ones.
  uint32_t num_unseen_blocks(uint32_t group, uint32_t position) const;
  // Limit of the blocks of a group that a sequence of this many tokens holds while its prompt is computed.
  uint32_t num_at_once(uint32_t group, uint32_t num_tokens) const;
  // Number of blocks of its table that the sequence has, or would have, with so many tokens cached.
  uint32_t table_size(uint32_t group, const Sequence& sequence, uint32_t num_cached_tokens) const;
  // Number of blocks that all tables of the sequence have.
  static uint32_t common_size(const Sequence& sequence);
  // Number of blocks that the tables lack to have so many.
  static uint32_t num_lacking(const Sequence& sequence, uint32_t num_blocks);
  // Of at most max_blocks blocks.
  Prefix find_prefix(const Sequence& sequence, uint32_t max_blocks);
  // The most blocks, up to num_blocks, after which each group but the first has all that the next row sees:
  // has(group, index).
  template <typename Has>
  uint32_t longest_prefix(uint32_t num_blocks, const Has& has) const;
  // The block of the group that was remembered with this content.
  std::optional<uint32_t> find_content(uint32_t group, const BlockChain& chain) const;
  // The block of the first group with the content of the sequence's block `index`, if chain stands just
  // before it.
  std::optional<uint32_t> find(const BlockChain& chain, uint64_t hash, const Sequence& sequence,
                               uint32_t index) const;
  // Takes over what the index remembers.
  void adopt();
  // Whether the block is new and follows a block of the first group that was adopted before it, or none; or
  // is of another group and new beside one that was.
  bool continues(const Block& block, const std::unordered_map<uint64_t, uint32_t>& block_of_content) const;
  // Checks the bytes of an adopted block, once. Returns false if they are wrong; the block is then forgotten.
  bool check_bytes(uint32_t id);
  // The blocks of the sequence from the first on that need not be computed, if all are found.
  uint32_t max_cached_blocks(const Sequence& sequence) const;
  uint32_t copy_from(const KvSource& source, Sequence& sequence);
  // Copies blocks of the first group, the only one, one after the other.
  uint32_t copy_chain(const KvSource& source, std::span<const KvSource::Found> first, Sequence& sequence);
  // Copies blocks of all groups: of those with windows only what the next row sees.
  uint32_t copy_groups(const KvSource& source, std::span<const KvSource::Found> first, Sequence& sequence);
  // Returns false if the copy is wrong.
  bool copy_block(const KvSource& source, const KvSource::Found& found, uint32_t id);
  // Arranges the blocks that have nothing yet so that the next row may be that after so many blocks, if the
  // groups without a window have theirs. Returns false, and changes nothing, if there are too few.
  bool move_places(Sequence& sequence, uint32_t num_blocks);
  // As if the next num_blocks blocks of the sequence had been computed.
  void take_over(Sequence& sequence, uint32_t num_blocks);
  void remember(Sequence& sequence, uint32_t index);
  void forget(uint32_t id);
  // Gives back the blocks of the table before the index, down to one that it lacks.
  void give_back_before(uint32_t index, std::vector<uint32_t>& table);
  void give_back_unused(Sequence& sequence);
  // Takes free blocks until each table has this many. There must be enough.
  void grow(Sequence& sequence, size_t num_blocks);
  void grow(std::vector<uint32_t>& table, size_t num_blocks);
  uint32_t take_free_block();
  void hold(uint32_t id);
  void release(uint32_t id);

  uint32_t block_size_;
  std::vector<uint32_t> windows_;  // by group
  uint32_t num_windows_;           // groups that have one
  Hash hash_;
  KvIndex* index_;
  const KvSources* sources_;
  std::vector<Block> blocks_;
  std::list<uint32_t> free_;  // first in, first out
  std::list<uint32_t> used_;  // without order; keeps the list nodes, so that serving allocates nothing
  std::vector<std::unordered_map<uint64_t, uint32_t>> blocks_of_hash_;  // by group
  uint64_t last_content_ = 0;
  uint32_t num_reusable_ = 0;
  uint64_t num_releases_ = 0;  // orders the blocks in the index
  uint64_t num_adopted_ = 0;
  uint64_t num_dropped_ = 0;
};

}  // namespace runnel
