#include "runner/block_manager.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "runner/check.h"

namespace runnel {

static_assert(std::endian::native == std::endian::little, "hash_block hashes integers as they lie in memory");

uint64_t hash_block(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids) {
  std::vector<uint64_t> words;
  words.reserve(token_ids.size() + 1);
  if (previous) words.push_back(*previous);
  words.insert(words.end(), token_ids.begin(), token_ids.end());
  return XXH64(words.data(), words.size() * sizeof(uint64_t), 0);
}

BlockManager::BlockManager(uint32_t num_blocks, uint32_t block_size)
    : block_size_(block_size), blocks_(num_blocks), free_(num_blocks) {
  CHECK(num_blocks > 0 && block_size > 0);
  std::iota(free_.begin(), free_.end(), 0u);
  for (auto place = free_.begin(); place != free_.end(); ++place) blocks_[*place].place = place;
}

std::optional<uint32_t> BlockManager::can_allocate(const Sequence& sequence) const {
  const uint32_t num_needed = blocks_for(sequence.num_tokens());
  uint32_t num_cached = 0;
  uint32_t num_from_free = num_needed;
  std::optional<uint64_t> hash;
  for (uint32_t i = 0; i + 1 < num_needed && !sequence.wants_scores(); ++i) {
    const auto token_ids = tokens_of_block(sequence, i);
    hash = hash_block(hash, token_ids);
    const std::optional<uint32_t> block = find(*hash, token_ids);
    if (!block) break;
    ++num_cached;
    if (blocks_[*block].num_holders > 0) --num_from_free;
  }
  if (num_from_free > num_free_blocks()) return std::nullopt;
  return num_cached;
}

void BlockManager::allocate(Sequence& sequence, uint32_t num_cached_blocks) {
  CHECK(sequence.block_table.empty());
  std::optional<uint64_t> hash;
  for (uint32_t i = 0; i < num_cached_blocks; ++i) {
    hash = hash_block(hash, tokens_of_block(sequence, i));
    const uint32_t block = block_of_hash_.at(*hash);
    hold(block);
    sequence.block_table.push_back(block);
  }
  const uint32_t num_needed = blocks_for(sequence.num_tokens());
  while (sequence.block_table.size() < num_needed) sequence.block_table.push_back(take_free_block());
  sequence.num_cached_tokens = num_cached_blocks * block_size_;
}

bool BlockManager::can_append(const Sequence& sequence) const {
  return !free_.empty() || blocks_for(sequence.num_tokens()) <= sequence.block_table.size();
}

void BlockManager::may_append(Sequence& sequence) {
  if (blocks_for(sequence.num_tokens()) > sequence.block_table.size())
    sequence.block_table.push_back(take_free_block());
}

void BlockManager::remember(const Sequence& sequence) {
  const uint32_t first = sequence.num_cached_tokens / block_size_;
  const uint32_t end = (sequence.num_cached_tokens + sequence.num_scheduled_tokens) / block_size_;
  std::optional<uint64_t> hash;
  if (first > 0) hash = blocks_[sequence.block_table[first - 1]].hash;
  for (uint32_t i = first; i < end; ++i) {
    const auto token_ids = tokens_of_block(sequence, i);
    hash = hash_block(hash, token_ids);
    Block& block = blocks_[sequence.block_table[i]];
    block.hash = hash;
    block.token_ids.assign(token_ids.begin(), token_ids.end());
    block_of_hash_[*hash] = sequence.block_table[i];
  }
}

void BlockManager::deallocate(Sequence& sequence) {
  // From the last on: the blocks that others are least likely to share are reused first.
  for (auto id = sequence.block_table.rbegin(); id != sequence.block_table.rend(); ++id) {
    Block& block = blocks_[*id];
    CHECK(block.num_holders > 0);
    if (--block.num_holders == 0) free_.splice(free_.end(), used_, block.place);
  }
  sequence.block_table.clear();
  sequence.num_cached_tokens = 0;
}

std::span<const uint32_t> BlockManager::tokens_of_block(const Sequence& sequence, uint32_t index) const {
  return std::span(sequence.token_ids).subspan(size_t{index} * block_size_, block_size_);
}

std::optional<uint32_t> BlockManager::find(uint64_t hash, std::span<const uint32_t> token_ids) const {
  const auto found = block_of_hash_.find(hash);
  if (found == block_of_hash_.end()) return std::nullopt;
  if (!std::ranges::equal(blocks_[found->second].token_ids, token_ids)) return std::nullopt;
  return found->second;
}

void BlockManager::hold(uint32_t id) {
  Block& block = blocks_[id];
  if (++block.num_holders == 1) used_.splice(used_.end(), free_, block.place);
}

uint32_t BlockManager::take_free_block() {
  CHECK(!free_.empty());
  const uint32_t id = free_.front();
  Block& block = blocks_[id];
  if (block.hash) {
    // Another block may have been filled with the same content since and own the entry now.
    const auto entry = block_of_hash_.find(*block.hash);
    if (entry != block_of_hash_.end() && entry->second == id) block_of_hash_.erase(entry);
    block.hash.reset();
    block.token_ids.clear();
  }
  hold(id);
  return id;
}

void BlockManager::check_integrity(std::span<const Sequence* const> sequences) const {
  std::vector<uint32_t> num_holders(blocks_.size());
  for (const Sequence* sequence : sequences) {
    for (const uint32_t id : sequence->block_table) ++num_holders.at(id);
    CHECK(sequence->num_cached_tokens <= sequence->block_table.size() * block_size_);
  }
  std::vector<bool> is_free(blocks_.size());
  for (const uint32_t id : free_) {
    CHECK(!is_free[id]);
    is_free[id] = true;
  }
  CHECK(free_.size() + used_.size() == blocks_.size());
  for (uint32_t id = 0; id < blocks_.size(); ++id) {
    CHECK(blocks_[id].num_holders == num_holders[id]);
    CHECK(is_free[id] == (num_holders[id] == 0));
    CHECK(*blocks_[id].place == id);
  }
  for (const auto& [hash, id] : block_of_hash_) CHECK(blocks_[id].hash == hash);
}

}  // namespace runnel
