// The blocks of the KV cache: which are held, and what each contains. This is bookkeeping only; the backend
// owns the memory.
//
// A filled block is remembered by a hash that chains over all tokens before it. A block without a holder
// keeps its content until it is reused, first freed first, and is revived if a sequence needs the content
// before that. The algorithm is that of nano-vLLM's block manager (github.com/GeeeekExplorer/nano-vllm,
// nanovllm/engine/block_manager.py), step for step, with the following changes.
//
// Hashes are not trusted, since an author of prompts can make them collide. Each content (all tokens up to
// the end of a block, and the salt) has a number, a block knows the number of the content before it, and a
// lookup compares that number, the salt and the ids. A content that no block has any more gets a new number
// when it is computed again. Blocks that followed the old number are then not found, and age out.
//
// If layers are in groups (KvWindows), the blocks of the first group tell what a text begins with. A block of
// another group belongs to a block of the first one by the number of its content.
//
// With a KvIndex, what is remembered outlives the process: the next pool begins with the remembered blocks of
// the last one, as if all sequences had just given theirs back. The bytes of such a block are checked before
// the first sequence shares it.
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

// Of a text with this salt.
BlockChain chain_before_first(const std::string& salt);

class BlockPool {
 public:
  using Hash = uint64_t (*)(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids);

  // Tests bring hashes that collide. index: must outlive the pool; null: nothing outlives it.
  BlockPool(uint32_t num_blocks, uint32_t num_groups, Hash hash, KvIndex* index);

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  // Free blocks that a lookup may still find.
  uint32_t num_reusable() const { return num_reusable_; }
  // Blocks of an earlier process that a lookup could find at the start, and those that were copied from other
  // caches; blocks whose entry or bytes were damaged.
  uint64_t num_adopted() const { return num_adopted_; }
  uint64_t num_dropped() const { return num_dropped_; }

  bool is_held(uint32_t id) const { return blocks_[id].num_holders > 0; }
  // take: holds the block that was freed first, and forgets its content. There must be a free one.
  uint32_t take();
  void hold(uint32_t id);
  void release(uint32_t id);
  // Releases a block that was never filled. It is the next to be taken: at the end of the free blocks, the
  // drafts of a few sequences would soon evict all known contents.
  void release_unfilled(uint32_t id);

  uint64_t hash(const BlockChain& chain, std::span<const uint32_t> token_ids) const {
    return hash_(chain.hash, token_ids);
  }
  struct Found {
    uint32_t id;
    BlockChain chain;  // up to the end of the block
  };
  // The block of the first group with these tokens and this salt, if chain stands just before it.
  std::optional<Found> find(const BlockChain& chain, const std::string& salt,
                            std::span<const uint32_t> token_ids);
  // The block of another group that was remembered with the content at whose end chain stands.
  std::optional<uint32_t> find_beside(const BlockChain& chain, uint32_t group);
  // What blocks with these tokens after the chain are remembered with: see remember.
  KvContent content_after(const BlockChain& chain, const std::string& salt,
                          std::span<const uint32_t> token_ids);
  // The block has been filled. If another one of its group has the same hash, a lookup finds the newer one,
  // as in nano-vLLM.
  void remember(uint32_t id, uint32_t group, const KvContent& content);

  // Copies the bytes of a block of another cache. Returns false if the copy is wrong. Only with an index.
  bool copy(const KvSource& source, const KvSource::Found& found, uint32_t id);
  const KvIndexShape& index_shape() const { return index_->shape(); }

  // For tests: CHECKs that lists, counts and hashes agree. num_holders: of each block.
  void check_integrity(std::span<const uint32_t> num_holders) const;

 private:
  struct Block {
    uint32_t num_holders = 0;
    // Whether a lookup may find this block. blocks_of_hash_ of its group then has this block for its hash.
    bool is_remembered = false;
    // Whether it is adopted, and nobody has compared its bytes with the checksum yet.
    bool is_unchecked = false;
    KvContent known;  // of the last content that was remembered
    std::list<uint32_t>::iterator place;
  };

  // Takes over what the index remembers.
  void adopt();
  // Whether the block is new and follows a block of the first group that was adopted before it, or none; or
  // is of another group and new beside one that was.
  bool continues(const KvContent& known,
                 const std::unordered_map<uint64_t, uint32_t>& block_of_content) const;
  // Without a look at its bytes.
  std::optional<uint32_t> find_known(const BlockChain& chain, uint64_t hash, const std::string& salt,
                                     std::span<const uint32_t> token_ids) const;
  // Checks the bytes of an adopted block, once. Returns false if they are wrong; the block is then forgotten.
  bool check_bytes(uint32_t id);
  void forget(uint32_t id);

  Hash hash_;
  KvIndex* index_;
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
