// The tables of blocks by which sequences use the KV cache (BlockPool).
//
// A sequence that begins with the same tokens as another shares the blocks that these fill, instead of
// computing them again. The algorithm is that of nano-vLLM's block manager (see BlockPool), with the
// following changes.
//
// With a sliding window, a sequence gives back the blocks that none of its later rows sees (KvWindows), and
// kNoBlock takes their place. A prefix is found as without a window, from the first block on as far as all
// blocks are present. The blocks of the prefix that the next row does not see are not held. A sequence also
// takes no more blocks than it needs at once (KvWindows::num_at_once): as rows of its prompt leave the
// window, it takes blocks for the following rows. So a sequence may be longer than the cache.
//
// If layers are in groups, a sequence has a table for each, and all take their blocks from the same pool. A
// prefix ends where all groups have what the next row sees: the last blocks within their windows are enough.
//
// With KvSources, a sequence that other runners have computed gets blocks from their caches. Such a block is
// copied, and from then on one like those that were computed here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runner/engine/block_pool.h"
#include "runner/engine/kv_index.h"
#include "runner/engine/kv_sources.h"
#include "runner/engine/kv_windows.h"
#include "runner/engine/sequence.h"

namespace runnel {

class BlockManager {
 public:
  // windows: of each group, see KvWindows. hash, index: see BlockPool. sources: must outlive the manager;
  // null: there are none. They need an index.
  BlockManager(uint32_t num_blocks, uint32_t block_size, std::vector<uint32_t> windows = {0},
               BlockPool::Hash hash = hash_block, KvIndex* index = nullptr,
               const KvSources* sources = nullptr);

  // Returns nothing if the blocks that the sequence takes at once are not available now. Otherwise returns
  // how many blocks, from the first on, need not be computed. The last block is never one of them, since its
  // last row gives the next token. A sequence that needs all its rows finds none (see
  // Sequence::needs_all_rows).
  std::optional<uint32_t> can_allocate(const Sequence& sequence);
  // Takes the blocks, with the result of can_allocate. The sequence must not hold blocks.
  void allocate(Sequence& sequence, uint32_t num_cached_blocks);

  // Copies what follows the cached tokens of an allocated sequence from the caches that it names, as far as
  // it is there. Returns how many blocks of tokens. The last one is never among them.
  uint32_t copy_from_sources(Sequence& sequence, KvLook& look);
  // At what the other caches have now.
  KvLook look() const { return sources_ == nullptr ? KvLook() : KvLook(*sources_, pool_.index_shape()); }

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

  // Takes a block for the token after the last one and its drafts, if it needs one and there are free ones.
  void reserve_next(Sequence& sequence);

  // Call it when the scheduled tokens have been computed. They count as cached, and the blocks that they fill
  // are remembered. Gives back the blocks that have left the window, and those that only wrong drafts needed.
  void advance(Sequence& sequence);

  // Gives back all blocks of the sequence. Its tokens must be computed again.
  void deallocate(Sequence& sequence);

  const BlockPool& pool() const { return pool_; }
  const KvWindows& windows() const { return windows_; }
  // The most tokens of a sequence for which the pool has enough blocks.
  uint64_t num_possible_tokens() const { return windows_.num_possible(pool_.num_blocks()); }

  // For tests: CHECKs that tables and pool agree. sequences must include every sequence that holds blocks.
  void check_integrity(std::span<const Sequence* const> sequences) const;

 private:
  using Tables = std::vector<std::vector<uint32_t>>;
  // What is present of the first tokens of a sequence.
  struct Prefix {
    uint32_t num_blocks;
    Tables tables;  // of so many blocks; kNoBlock where the next row does not see
    BlockChain chain;
  };

  uint32_t num_groups() const { return windows_.num_groups(); }
  uint32_t blocks_for(uint32_t num_tokens) const { return windows_.blocks_for(num_tokens); }
  std::span<const uint32_t> tokens_of_block(const Sequence& sequence, uint32_t index) const;
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
  // The blocks of the sequence from the first on that need not be computed, if all are found.
  uint32_t max_cached_blocks(const Sequence& sequence) const;
  uint32_t copy_from(const KvSource& source, Sequence& sequence);
  // Copies blocks of the first group, the only one, one after the other.
  uint32_t copy_chain(const KvSource& source, std::span<const KvSource::Found> first, Sequence& sequence);
  // Copies blocks of all groups: of those with windows only what the next row sees.
  uint32_t copy_groups(const KvSource& source, std::span<const KvSource::Found> first, Sequence& sequence);
  // Arranges the blocks that have nothing yet so that the next row may be that after so many blocks, if the
  // groups without a window have theirs. Returns false, and changes nothing, if there are too few.
  bool move_places(Sequence& sequence, uint32_t num_blocks);
  // As if the next num_blocks blocks of the sequence had been computed.
  void take_over(Sequence& sequence, uint32_t num_blocks);
  void remember(Sequence& sequence, uint32_t index);
  // Gives back the blocks of the table before the index, down to one that it lacks.
  void give_back_before(uint32_t index, std::vector<uint32_t>& table);
  void give_back_unused(Sequence& sequence);
  // Takes free blocks until each table has this many. There must be enough.
  void grow(Sequence& sequence, size_t num_blocks);
  void grow(std::vector<uint32_t>& table, size_t num_blocks);

  KvWindows windows_;
  BlockPool pool_;
  const KvSources* sources_;
};

}  // namespace runnel
