#include "runner/engine/block_pool.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

static_assert(std::endian::native == std::endian::little, "hash_block hashes integers as they lie in memory");

// No process counts so far; a larger number in an index is no number of ours.
constexpr uint64_t kMaxAdoptedContent = uint64_t{1} << 62;

}  // namespace

uint64_t hash_block(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids) {
  std::vector<uint64_t> words;
  words.reserve(token_ids.size() + 1);
  if (previous) words.push_back(*previous);
  words.insert(words.end(), token_ids.begin(), token_ids.end());
  return XXH64(words.data(), words.size() * sizeof(uint64_t), 0);
}

BlockChain chain_before_first(const std::string& salt) {
  if (salt.empty()) return {};
  return {.hash = XXH64(salt.data(), salt.size(), 0), .content = 0};
}

BlockPool::BlockPool(uint32_t num_blocks, uint32_t num_groups, Hash hash, KvIndex* index)
    : hash_(hash), index_(index), blocks_(num_blocks), free_(num_blocks), blocks_of_hash_(num_groups) {
  CHECK(num_blocks > 0);
  std::iota(free_.begin(), free_.end(), 0u);
  for (auto place = free_.begin(); place != free_.end(); ++place) blocks_[*place].place = place;
  if (index_ != nullptr) adopt();
}

void BlockPool::adopt() {
  CHECK(index_->num_blocks() == num_blocks());
  num_dropped_ = index_->num_lost();
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < num_blocks(); ++id) {
    if (index_->is_empty(id)) continue;
    std::optional<KvContent> stored = index_->read(id);
    if (!stored) {
      index_->invalidate(id);
      ++num_dropped_;
      continue;
    }
    ids.push_back(id);
    blocks_[id].known = *std::move(stored);
  }
  // In order of contents, so that each block comes after the one that it continues or belongs to.
  std::ranges::sort(
      ids, {}, [&](uint32_t id) { return std::pair(blocks_[id].known.content, blocks_[id].known.group); });
  std::unordered_map<uint64_t, uint32_t> block_of_content;
  std::erase_if(ids, [&](uint32_t id) {
    Block& block = blocks_[id];
    const KvContent& known = block.known;
    if (!continues(known, block_of_content)) {
      index_->invalidate(id);
      return true;
    }
    block.is_remembered = true;
    block.is_unchecked = true;
    if (known.group == 0) block_of_content[known.content] = id;
    blocks_of_hash_[known.group][known.hash] = id;
    last_content_ = known.content;
    return false;
  });
  num_adopted_ = num_reusable_ = static_cast<uint32_t>(ids.size());
  // Blocks are reused in the order in which they were given back. Those that were held come last, and of them
  // the ends of sequences first, as in BlockManager::deallocate.
  std::ranges::sort(
      ids, {}, [&](uint32_t id) { return std::tuple(index_->used_at(id), ~blocks_[id].known.content, id); });
  for (const uint32_t id : ids) {
    free_.splice(free_.end(), free_, blocks_[id].place);
    index_->set_used(id, ++num_releases_);
  }
}

// A block that continues nothing is never found: the beginning of its text is gone.
bool BlockPool::continues(const KvContent& known,
                          const std::unordered_map<uint64_t, uint32_t>& block_of_content) const {
  if (known.group >= blocks_of_hash_.size() || blocks_of_hash_[known.group].contains(known.hash))
    return false;
  if (known.group > 0) {
    const auto first = block_of_content.find(known.content);
    if (first == block_of_content.end()) return false;
    const KvContent& beside = blocks_[first->second].known;
    return beside.hash == known.hash && beside.previous_content == known.previous_content &&
           beside.salt == known.salt && beside.token_ids == known.token_ids;
  }
  BlockChain chain = chain_before_first(known.salt);
  if (known.previous_content != 0) {
    const auto previous = block_of_content.find(known.previous_content);
    if (previous == block_of_content.end() || blocks_[previous->second].known.salt != known.salt)
      return false;
    chain = {blocks_[previous->second].known.hash, known.previous_content};
  }
  return !block_of_content.contains(known.content) && known.previous_content < known.content &&
         known.content <= kMaxAdoptedContent && hash_(chain.hash, known.token_ids) == known.hash;
}

uint32_t BlockPool::take() {
  CHECK(!free_.empty());
  const uint32_t id = free_.front();
  if (blocks_[id].is_remembered) forget(id);
  hold(id);
  return id;
}

void BlockPool::hold(uint32_t id) {
  Block& block = blocks_[id];
  if (++block.num_holders > 1) return;
  used_.splice(used_.end(), free_, block.place);
  if (index_ != nullptr) index_->set_used(id, KvIndex::kHeld);
  if (block.is_remembered) --num_reusable_;
}

void BlockPool::release(uint32_t id) {
  Block& block = blocks_[id];
  CHECK(block.num_holders > 0);
  if (--block.num_holders > 0) return;
  free_.splice(free_.end(), used_, block.place);
  if (index_ != nullptr) index_->set_used(id, ++num_releases_);
  if (block.is_remembered) ++num_reusable_;
}

void BlockPool::release_unfilled(uint32_t id) {
  release(id);
  free_.splice(free_.begin(), free_, blocks_[id].place);
}

std::optional<BlockPool::Found> BlockPool::find(const BlockChain& chain, const std::string& salt,
                                                std::span<const uint32_t> token_ids) {
  const uint64_t hash = hash_(chain.hash, token_ids);
  const std::optional<uint32_t> id = find_known(chain, hash, salt, token_ids);
  if (!id || !check_bytes(*id)) return std::nullopt;
  return Found{*id, {hash, blocks_[*id].known.content}};
}

std::optional<uint32_t> BlockPool::find_beside(const BlockChain& chain, uint32_t group) {
  const auto found = blocks_of_hash_[group].find(*chain.hash);
  if (found == blocks_of_hash_[group].end()) return std::nullopt;
  const uint32_t id = found->second;
  if (blocks_[id].known.content != chain.content || !check_bytes(id)) return std::nullopt;
  return id;
}

KvContent BlockPool::content_after(const BlockChain& chain, const std::string& salt,
                                   std::span<const uint32_t> token_ids) {
  const uint64_t hash = hash_(chain.hash, token_ids);
  const std::optional<uint32_t> same = find_known(chain, hash, salt, token_ids);
  return {.hash = hash,
          .content = same ? blocks_[*same].known.content : ++last_content_,
          .previous_content = chain.content,
          .salt = salt,
          .token_ids = {token_ids.begin(), token_ids.end()}};
}

void BlockPool::remember(uint32_t id, uint32_t group, const KvContent& content) {
  auto& block_of_hash = blocks_of_hash_[group];
  if (const auto owner = block_of_hash.find(content.hash); owner != block_of_hash.end())
    forget(owner->second);
  block_of_hash[content.hash] = id;
  Block& block = blocks_[id];
  block.known = content;
  block.known.group = group;
  block.is_remembered = true;
  if (index_ != nullptr) index_->publish(id, block.known);
}

bool BlockPool::copy(const KvSource& source, const KvSource::Found& found, uint32_t id) {
  const KvSource::Copy copy = source.copy(found, index_->writable_block(id));
  if (copy == KvSource::Copy::kDamaged) ++num_dropped_;
  if (copy == KvSource::Copy::kIntact) ++num_adopted_;
  return copy == KvSource::Copy::kIntact;
}

std::optional<uint32_t> BlockPool::find_known(const BlockChain& chain, uint64_t hash, const std::string& salt,
                                              std::span<const uint32_t> token_ids) const {
  const auto found = blocks_of_hash_.front().find(hash);
  if (found == blocks_of_hash_.front().end()) return std::nullopt;
  const KvContent& known = blocks_[found->second].known;
  const bool is_same = known.previous_content == chain.content && known.salt == salt &&
                       std::ranges::equal(known.token_ids, token_ids);
  return is_same ? std::optional(found->second) : std::nullopt;
}

bool BlockPool::check_bytes(uint32_t id) {
  Block& block = blocks_[id];
  if (!std::exchange(block.is_unchecked, false)) return true;
  if (KvIndex::is_intact(index_->block(id), block.known.checksum)) return true;
  forget(id);
  ++num_dropped_;
  return false;
}

void BlockPool::forget(uint32_t id) {
  Block& block = blocks_[id];
  blocks_of_hash_[block.known.group].erase(block.known.hash);
  block.is_remembered = false;
  block.is_unchecked = false;
  if (index_ != nullptr) index_->invalidate(id);
  if (block.num_holders == 0) --num_reusable_;
}

void BlockPool::check_integrity(std::span<const uint32_t> num_holders) const {
  CHECK(free_.size() + used_.size() == blocks_.size());
  std::vector<bool> is_free(blocks_.size());
  uint32_t num_reusable = 0;
  for (const uint32_t id : free_) {
    CHECK(!is_free[id]);
    is_free[id] = true;
    if (blocks_[id].is_remembered) ++num_reusable;
  }
  CHECK(num_reusable == num_reusable_);
  size_t num_remembered = 0;
  for (uint32_t id = 0; id < blocks_.size(); ++id) {
    const Block& block = blocks_[id];
    CHECK(block.num_holders == num_holders[id]);
    CHECK(is_free[id] == (num_holders[id] == 0));
    CHECK(*block.place == id);
    if (!block.is_remembered) continue;
    ++num_remembered;
    const KvContent& known = block.known;
    CHECK(blocks_of_hash_.at(known.group).at(known.hash) == id);
    CHECK(known.content > 0 && known.content <= last_content_ && known.previous_content < known.content);
  }
  for (const auto& block_of_hash : blocks_of_hash_) num_remembered -= block_of_hash.size();
  CHECK(num_remembered == 0);
}

}  // namespace runnel
