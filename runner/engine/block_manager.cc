#include "runner/engine/block_manager.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

static_assert(std::endian::native == std::endian::little, "hash_block hashes integers as they lie in memory");

// No process counts so far; a larger number in an index is no number of ours.
constexpr uint64_t kMaxAdoptedContent = uint64_t{1} << 62;

BlockChain chain_before_first(const std::string& salt) {
  if (salt.empty()) return {};
  return {.hash = XXH64(salt.data(), salt.size(), 0), .content = 0};
}

}  // namespace

uint64_t hash_block(std::optional<uint64_t> previous, std::span<const uint32_t> token_ids) {
  std::vector<uint64_t> words;
  words.reserve(token_ids.size() + 1);
  if (previous) words.push_back(*previous);
  words.insert(words.end(), token_ids.begin(), token_ids.end());
  return XXH64(words.data(), words.size() * sizeof(uint64_t), 0);
}

uint32_t num_required_blocks(uint32_t num_tokens, uint32_t block_size, uint32_t window) {
  const uint32_t num_for_all = num_tokens / block_size + (num_tokens % block_size == 0 ? 0 : 1);
  if (window == 0) return num_for_all;
  // What a row sees may begin in the middle of a block.
  return std::min(num_for_all, (window - 1) / block_size + 2);
}

BlockManager::BlockManager(uint32_t num_blocks, uint32_t block_size, uint32_t window, Hash hash,
                           KvIndex* index, const KvSources* sources)
    : block_size_(block_size),
      window_(window),
      hash_(hash),
      index_(index),
      sources_(sources),
      blocks_(num_blocks),
      free_(num_blocks) {
  CHECK(num_blocks > 0 && block_size > 0 && (index != nullptr || sources == nullptr));
  std::iota(free_.begin(), free_.end(), 0u);
  for (auto place = free_.begin(); place != free_.end(); ++place) blocks_[*place].place = place;
  if (index_ != nullptr) adopt();
}

void BlockManager::adopt() {
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
    Block& block = blocks_[id];
    block.hash = stored->hash;
    block.content = stored->content;
    block.previous_content = stored->previous_content;
    block.salt = std::move(stored->salt);
    block.token_ids = std::move(stored->token_ids);
    block.unchecked = stored->checksum;
  }
  // In order of contents, so that each block comes after the one that it continues.
  std::ranges::sort(ids, {}, [&](uint32_t id) { return blocks_[id].content; });
  std::unordered_map<uint64_t, uint32_t> block_of_content;
  std::erase_if(ids, [&](uint32_t id) {
    Block& block = blocks_[id];
    if (continues(block, block_of_content)) {
      block_of_content[block.content] = id;
      block_of_hash_[*block.hash] = id;
      last_content_ = block.content;
      return false;
    }
    block.hash.reset();
    index_->invalidate(id);
    return true;
  });
  num_adopted_ = num_reusable_ = static_cast<uint32_t>(ids.size());
  // Blocks are reused in the order in which they were given back. Those that were held come last, and of them
  // the ends of sequences first, as in deallocate.
  std::ranges::sort(ids, {},
                    [&](uint32_t id) { return std::pair(index_->used_at(id), ~blocks_[id].content); });
  for (const uint32_t id : ids) {
    free_.splice(free_.end(), free_, blocks_[id].place);
    index_->set_used(id, ++num_releases_);
  }
}

// A block that continues nothing is never found: the beginning of its text is gone.
bool BlockManager::continues(const Block& block,
                             const std::unordered_map<uint64_t, uint32_t>& block_of_content) const {
  BlockChain chain = chain_before_first(block.salt);
  if (block.previous_content != 0) {
    const auto previous = block_of_content.find(block.previous_content);
    if (previous == block_of_content.end() || blocks_[previous->second].salt != block.salt) return false;
    chain = {blocks_[previous->second].hash, block.previous_content};
  }
  const bool is_new = !block_of_content.contains(block.content) && !block_of_hash_.contains(*block.hash);
  return is_new && block.previous_content < block.content && block.content <= kMaxAdoptedContent &&
         hash_(chain.hash, block.token_ids) == *block.hash;
}

bool BlockManager::check_bytes(uint32_t id) {
  const std::optional<uint64_t> unchecked = std::exchange(blocks_[id].unchecked, std::nullopt);
  if (!unchecked || KvIndex::is_intact(index_->block(id), *unchecked)) return true;
  forget(id);
  ++num_dropped_;
  return false;
}

uint32_t BlockManager::max_cached_blocks(const Sequence& sequence) const {
  return sequence.needs_all_rows() ? 0 : blocks_for(sequence.num_tokens()) - 1;
}

std::optional<uint32_t> BlockManager::can_allocate(const Sequence& sequence) {
  const std::vector<uint32_t> cached = find_prefix(sequence, max_cached_blocks(sequence));
  const auto num_cached = static_cast<uint32_t>(cached.size());
  const uint32_t num_unseen = num_unseen_blocks(num_cached * block_size_);
  uint32_t num_from_free = table_size(sequence, num_cached * block_size_) - num_unseen;
  for (uint32_t i = num_unseen; i < num_cached; ++i)
    if (blocks_[cached[i]].num_holders > 0) --num_from_free;
  if (num_from_free > num_free_blocks()) return std::nullopt;
  return num_cached;
}

void BlockManager::allocate(Sequence& sequence, uint32_t num_cached_blocks) {
  CHECK(sequence.block_table.empty());
  sequence.block_table = find_prefix(sequence, num_cached_blocks);
  CHECK(sequence.block_table.size() == num_cached_blocks);
  sequence.num_cached_tokens = num_cached_blocks * block_size_;
  sequence.chain = chain_before_first(sequence.cache_salt);
  if (num_cached_blocks > 0) {
    const Block& last = blocks_[sequence.block_table.back()];
    sequence.chain = {last.hash, last.content};
  }
  const uint32_t num_unseen = num_unseen_blocks(sequence.num_cached_tokens);
  std::fill_n(sequence.block_table.begin(), num_unseen, kNoBlock);
  for (uint32_t i = num_unseen; i < num_cached_blocks; ++i) hold(sequence.block_table[i]);
  grow(sequence, table_size(sequence, sequence.num_cached_tokens));
}

uint32_t BlockManager::copy_from_sources(Sequence& sequence) {
  uint32_t num_copied = 0;
  for (const uint32_t descriptor : sequence.kv_from) {
    if (sources_ == nullptr || sequence.num_cached_tokens / block_size_ >= max_cached_blocks(sequence)) break;
    if (const auto source = sources_->look_into(descriptor, index_->shape()))
      num_copied += copy_from(*source, sequence);
  }
  num_adopted_ += num_copied;
  return num_copied;
}

uint32_t BlockManager::copy_from(const KvSource& source, Sequence& sequence) {
  const uint32_t num_before = sequence.num_cached_tokens / block_size_;
  const uint32_t max_cached = max_cached_blocks(sequence);
  // From the first block on also where it is here already, since only the chain tells what a text begins
  // with.
  BlockChain chain = chain_before_first(sequence.cache_salt);
  uint32_t index = 0;
  for (; index < max_cached; ++index) {
    const auto token_ids = tokens_of_block(sequence, index);
    const uint64_t hash = hash_(chain.hash, token_ids);
    const auto found = source.find(hash, chain.content, sequence.cache_salt, token_ids);
    if (!found) break;
    chain = {hash, found->content.content};
    if (index < num_before) continue;
    if (num_places(sequence) < block_size_) extend(sequence);
    if (num_places(sequence) < block_size_) break;
    const KvSource::Copy copy = source.copy(*found, index_->writable_block(sequence.block_table[index]));
    if (copy == KvSource::Copy::kDamaged) ++num_dropped_;
    if (copy != KvSource::Copy::kIntact) break;
    // As if it had been computed.
    sequence.num_scheduled_tokens = block_size_;
    advance(sequence);
    sequence.num_scheduled_tokens = 0;
  }
  return std::max(index, num_before) - num_before;
}

uint32_t BlockManager::num_places(const Sequence& sequence) const {
  return static_cast<uint32_t>(sequence.block_table.size()) * block_size_ - sequence.num_cached_tokens;
}

void BlockManager::extend(Sequence& sequence) {
  const size_t num_possible = sequence.block_table.size() + free_.size();
  grow(sequence, std::min<size_t>(table_size(sequence, sequence.num_cached_tokens), num_possible));
}

uint32_t BlockManager::num_at_once(uint32_t num_tokens) const {
  if (window_ == 0) return blocks_for(num_tokens);
  // As many rows again as a row sees, so that parts of a prompt are long.
  return std::min({blocks_for(num_tokens), 2 * num_required(num_tokens), num_blocks()});
}

uint32_t BlockManager::table_size(const Sequence& sequence, uint32_t num_cached_tokens) const {
  const uint32_t num_tokens = sequence.num_tokens();
  return std::min(blocks_for(num_tokens), num_unseen_blocks(num_cached_tokens) + num_at_once(num_tokens));
}

bool BlockManager::can_append(const Sequence& sequence) const {
  return !free_.empty() || blocks_for(sequence.num_tokens()) <= sequence.block_table.size();
}

void BlockManager::may_append(Sequence& sequence) {
  grow(sequence, blocks_for(sequence.num_tokens()));
}

uint32_t BlockManager::num_draft_places(const Sequence& sequence) const {
  const uint64_t num_blocks = sequence.block_table.size() + free_.size();
  const uint64_t num_places = num_blocks * block_size_ - sequence.num_tokens();
  return static_cast<uint32_t>(std::min<uint64_t>(num_places, std::numeric_limits<uint32_t>::max()));
}

void BlockManager::append_drafts(Sequence& sequence) {
  grow(sequence, blocks_for(sequence.num_tokens() + sequence.num_drafts));
}

void BlockManager::advance(Sequence& sequence) {
  CHECK(sequence.num_drafts == 0);
  uint32_t index = sequence.num_cached_tokens / block_size_;
  sequence.num_cached_tokens += sequence.num_scheduled_tokens;
  CHECK(sequence.num_cached_tokens <= sequence.block_table.size() * block_size_);
  for (; index < sequence.num_cached_tokens / block_size_; ++index) remember(sequence, index);
  give_back_unseen(sequence);
  // A sequence that lacks only its last token takes a block when this is scheduled.
  if (window_ > 0 && sequence.num_cached_tokens + 1 < sequence.num_tokens()) extend(sequence);
  give_back_unused(sequence);
}

void BlockManager::deallocate(Sequence& sequence) {
  // From the last block on, so that the blocks which other sequences are least likely to share are reused
  // first.
  for (auto id = sequence.block_table.rbegin(); id != sequence.block_table.rend(); ++id)
    if (*id != kNoBlock) release(*id);
  sequence.block_table.clear();
  sequence.num_cached_tokens = 0;
}

std::span<const uint32_t> BlockManager::tokens_of_block(const Sequence& sequence, uint32_t index) const {
  return std::span(sequence.token_ids).subspan(size_t{index} * block_size_, block_size_);
}

uint32_t BlockManager::num_unseen_blocks(uint32_t position) const {
  if (window_ == 0 || position < window_) return 0;
  return (position - window_ + 1) / block_size_;
}

std::vector<uint32_t> BlockManager::find_prefix(const Sequence& sequence, uint32_t max_blocks) {
  std::vector<uint32_t> found;
  BlockChain chain = chain_before_first(sequence.cache_salt);
  for (uint32_t index = 0; index < max_blocks; ++index) {
    const uint64_t hash = hash_(chain.hash, tokens_of_block(sequence, index));
    const std::optional<uint32_t> id = find(chain, hash, sequence, index);
    if (!id || !check_bytes(*id)) break;
    found.push_back(*id);
    chain = {hash, blocks_[*id].content};
  }
  return found;
}

std::optional<uint32_t> BlockManager::find(const BlockChain& chain, uint64_t hash, const Sequence& sequence,
                                           uint32_t index) const {
  const auto found = block_of_hash_.find(hash);
  if (found == block_of_hash_.end()) return std::nullopt;
  const Block& block = blocks_[found->second];
  const bool is_same = block.previous_content == chain.content && block.salt == sequence.cache_salt &&
                       std::ranges::equal(block.token_ids, tokens_of_block(sequence, index));
  return is_same ? std::optional(found->second) : std::nullopt;
}

void BlockManager::remember(Sequence& sequence, uint32_t index) {
  BlockChain& chain = sequence.chain;
  const auto token_ids = tokens_of_block(sequence, index);
  const uint64_t hash = hash_(chain.hash, token_ids);
  const std::optional<uint32_t> same = find(chain, hash, sequence, index);
  const uint32_t id = sequence.block_table[index];
  Block& block = blocks_[id];
  block.content = same ? blocks_[*same].content : ++last_content_;
  block.previous_content = chain.content;
  block.salt = sequence.cache_salt;
  block.token_ids.assign(token_ids.begin(), token_ids.end());
  // If two blocks have the same hash, a lookup finds the newer one, as in nano-vLLM.
  if (const auto owner = block_of_hash_.find(hash); owner != block_of_hash_.end()) forget(owner->second);
  block.hash = hash;
  block_of_hash_[hash] = id;
  if (index_ != nullptr)
    index_->publish(id, {hash, block.content, block.previous_content, block.salt, block.token_ids});
  chain = {hash, block.content};
}

void BlockManager::forget(uint32_t id) {
  Block& block = blocks_[id];
  block_of_hash_.erase(*block.hash);
  block.hash.reset();
  block.unchecked.reset();
  if (index_ != nullptr) index_->invalidate(id);
  if (block.num_holders == 0) --num_reusable_;
}

void BlockManager::give_back_unseen(Sequence& sequence) {
  // From the last block on, as in deallocate, down to the blocks that an earlier call has given back.
  for (uint32_t i = num_unseen_blocks(sequence.num_cached_tokens); i > 0; --i) {
    uint32_t& id = sequence.block_table[i - 1];
    if (id == kNoBlock) return;
    release(id);
    id = kNoBlock;
  }
}

void BlockManager::give_back_unused(Sequence& sequence) {
  while (sequence.block_table.size() > blocks_for(sequence.num_tokens())) {
    const uint32_t id = sequence.block_table.back();
    sequence.block_table.pop_back();
    release(id);
    // The block has no known content, so it is the next to be taken. At the end of the list, the drafts of a
    // few sequences would soon evict all known contents.
    free_.splice(free_.begin(), free_, blocks_[id].place);
  }
}

void BlockManager::grow(Sequence& sequence, size_t num_blocks) {
  while (sequence.block_table.size() < num_blocks) sequence.block_table.push_back(take_free_block());
}

uint32_t BlockManager::take_free_block() {
  CHECK(!free_.empty());
  const uint32_t id = free_.front();
  if (blocks_[id].hash) forget(id);
  hold(id);
  return id;
}

void BlockManager::hold(uint32_t id) {
  Block& block = blocks_[id];
  if (++block.num_holders > 1) return;
  used_.splice(used_.end(), free_, block.place);
  if (index_ != nullptr) index_->set_used(id, KvIndex::kHeld);
  if (block.hash) --num_reusable_;
}

void BlockManager::release(uint32_t id) {
  Block& block = blocks_[id];
  CHECK(block.num_holders > 0);
  if (--block.num_holders > 0) return;
  free_.splice(free_.end(), used_, block.place);
  if (index_ != nullptr) index_->set_used(id, ++num_releases_);
  if (block.hash) ++num_reusable_;
}

void BlockManager::check_integrity(std::span<const Sequence* const> sequences) const {
  std::vector<uint32_t> num_holders(blocks_.size());
  for (const Sequence* sequence : sequences) {
    const uint32_t num_unseen = num_unseen_blocks(sequence->num_cached_tokens);
    for (uint32_t i = 0; i < sequence->block_table.size(); ++i) {
      CHECK((sequence->block_table[i] == kNoBlock) == (i < num_unseen));
      if (i >= num_unseen) ++num_holders.at(sequence->block_table[i]);
    }
    CHECK(sequence->num_cached_tokens <= sequence->block_table.size() * block_size_);
  }
  CHECK(free_.size() + used_.size() == blocks_.size());
  std::vector<bool> is_free(blocks_.size());
  uint32_t num_reusable = 0;
  for (const uint32_t id : free_) {
    CHECK(!is_free[id]);
    is_free[id] = true;
    if (blocks_[id].hash) ++num_reusable;
  }
  CHECK(num_reusable == num_reusable_);
  size_t num_remembered = 0;
  for (uint32_t id = 0; id < blocks_.size(); ++id) {
    const Block& block = blocks_[id];
    CHECK(block.num_holders == num_holders[id]);
    CHECK(is_free[id] == (num_holders[id] == 0));
    CHECK(*block.place == id);
    if (!block.hash) continue;
    ++num_remembered;
    CHECK(block_of_hash_.at(*block.hash) == id);
    CHECK(block.content > 0 && block.content <= last_content_ && block.previous_content < block.content);
  }
  CHECK(block_of_hash_.size() == num_remembered);
}

}  // namespace runnel
