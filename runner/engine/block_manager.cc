#include "runner/engine/block_manager.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

static_assert(std::endian::native == std::endian::little, "hash_block hashes integers as they lie in memory");

// No process counts so far; a larger number in an index is no number of ours.
constexpr uint64_t kMaxAdoptedContent = uint64_t{1} << 62;

// Limit of the blocks of a group that are required, however long the sequence is.
uint64_t max_blocks_of(uint32_t window, uint32_t block_size) {
  if (window == 0) return std::numeric_limits<uint64_t>::max();
  // What a row sees may begin in the middle of a block.
  return uint64_t{window - 1} / block_size + 2;
}

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

BlockManager::BlockManager(uint32_t num_blocks, uint32_t block_size, std::vector<uint32_t> windows, Hash hash,
                           KvIndex* index, const KvSources* sources)
    : block_size_(block_size),
      windows_(std::move(windows)),
      num_windows_(static_cast<uint32_t>(windows_.size() - std::ranges::count(windows_, 0u))),
      hash_(hash),
      index_(index),
      sources_(sources),
      blocks_(num_blocks),
      free_(num_blocks),
      blocks_of_hash_(windows_.size()) {
  CHECK(num_blocks > 0 && block_size > 0 && (index != nullptr || sources == nullptr));
  CHECK(!windows_.empty() && (windows_.size() == 1 || windows_.front() == 0));
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
    block.group = stored->group;
    block.hash = stored->hash;
    block.content = stored->content;
    block.previous_content = stored->previous_content;
    block.salt = std::move(stored->salt);
    block.token_ids = std::move(stored->token_ids);
    block.unchecked = stored->checksum;
  }
  // In order of contents, so that each block comes after the one that it continues or belongs to.
  std::ranges::sort(ids, {}, [&](uint32_t id) { return std::pair(blocks_[id].content, blocks_[id].group); });
  std::unordered_map<uint64_t, uint32_t> block_of_content;
  std::erase_if(ids, [&](uint32_t id) {
    Block& block = blocks_[id];
    if (continues(block, block_of_content)) {
      if (block.group == 0) block_of_content[block.content] = id;
      blocks_of_hash_[block.group][*block.hash] = id;
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
                    [&](uint32_t id) { return std::tuple(index_->used_at(id), ~blocks_[id].content, id); });
  for (const uint32_t id : ids) {
    free_.splice(free_.end(), free_, blocks_[id].place);
    index_->set_used(id, ++num_releases_);
  }
}

// A block that continues nothing is never found: the beginning of its text is gone.
bool BlockManager::continues(const Block& block,
                             const std::unordered_map<uint64_t, uint32_t>& block_of_content) const {
  if (block.group >= num_groups()) return false;
  if (block.group > 0) {
    const auto first = block_of_content.find(block.content);
    if (first == block_of_content.end()) return false;
    const Block& beside = blocks_[first->second];
    return beside.hash == block.hash && beside.previous_content == block.previous_content &&
           beside.salt == block.salt && beside.token_ids == block.token_ids &&
           !blocks_of_hash_[block.group].contains(*block.hash);
  }
  BlockChain chain = chain_before_first(block.salt);
  if (block.previous_content != 0) {
    const auto previous = block_of_content.find(block.previous_content);
    if (previous == block_of_content.end() || blocks_[previous->second].salt != block.salt) return false;
    chain = {blocks_[previous->second].hash, block.previous_content};
  }
  const bool is_new = !block_of_content.contains(block.content) && !blocks_of_hash_[0].contains(*block.hash);
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
  const Prefix prefix = find_prefix(sequence, max_cached_blocks(sequence));
  const uint32_t num_cached_tokens = prefix.num_blocks * block_size_;
  uint32_t num_from_free = 0;
  for (uint32_t group = 0; group < num_groups(); ++group) {
    num_from_free +=
        table_size(group, sequence, num_cached_tokens) - num_unseen_blocks(group, num_cached_tokens);
    for (const uint32_t id : prefix.tables[group])
      if (id != kNoBlock && blocks_[id].num_holders > 0) --num_from_free;
  }
  if (num_from_free > num_free_blocks()) return std::nullopt;
  return prefix.num_blocks;
}

void BlockManager::allocate(Sequence& sequence, uint32_t num_cached_blocks) {
  CHECK(!sequence.holds_blocks());
  Prefix prefix = find_prefix(sequence, num_cached_blocks);
  CHECK(prefix.num_blocks == num_cached_blocks);
  sequence.block_tables = std::move(prefix.tables);
  sequence.num_cached_tokens = num_cached_blocks * block_size_;
  sequence.chain = prefix.chain;
  for (const std::vector<uint32_t>& table : sequence.block_tables)
    for (const uint32_t id : table)
      if (id != kNoBlock) hold(id);
  for (uint32_t group = 0; group < num_groups(); ++group)
    grow(sequence.block_tables[group], table_size(group, sequence, sequence.num_cached_tokens));
}

uint32_t BlockManager::copy_from_sources(Sequence& sequence) {
  uint32_t num_copied = 0;
  for (const uint32_t descriptor : sequence.kv_from) {
    if (sources_ == nullptr || sequence.num_cached_tokens / block_size_ >= max_cached_blocks(sequence)) break;
    if (const auto source = sources_->look_into(descriptor, index_->shape()))
      num_copied += copy_from(*source, sequence);
  }
  return num_copied;
}

uint32_t BlockManager::copy_from(const KvSource& source, Sequence& sequence) {
  // From the first block on also where it is here already, since only the chain tells what a text begins
  // with.
  std::vector<KvSource::Found> first;
  BlockChain chain = chain_before_first(sequence.cache_salt);
  while (first.size() < max_cached_blocks(sequence)) {
    const auto token_ids = tokens_of_block(sequence, static_cast<uint32_t>(first.size()));
    const uint64_t hash = hash_(chain.hash, token_ids);
    auto found = source.find(hash, chain.content, sequence.cache_salt, token_ids);
    if (!found) break;
    chain = {hash, found->content.content};
    first.push_back(*std::move(found));
  }
  return num_groups() == 1 ? copy_chain(source, first, sequence) : copy_groups(source, first, sequence);
}

uint32_t BlockManager::copy_chain(const KvSource& source, std::span<const KvSource::Found> first,
                                  Sequence& sequence) {
  const uint32_t num_before = sequence.num_cached_tokens / block_size_;
  uint32_t index = num_before;
  for (; index < first.size(); ++index) {
    if (num_places(sequence) < block_size_) extend(sequence);
    if (num_places(sequence) < block_size_) break;
    if (!copy_block(source, first[index], sequence.block_tables.front()[index])) break;
    take_over(sequence, 1);
  }
  return index - num_before;
}

uint32_t BlockManager::copy_groups(const KvSource& source, std::span<const KvSource::Found> first,
                                   Sequence& sequence) {
  const uint32_t num_before = sequence.num_cached_tokens / block_size_;
  std::set<std::pair<uint32_t, uint32_t>> damaged;  // groups and indices
  const auto find = [&](uint32_t group, uint32_t index) -> std::optional<KvSource::Found> {
    if (damaged.contains({group, index})) return std::nullopt;
    return source.find_beside(first[index].content, group);
  };
  const auto has = [&](uint32_t group, uint32_t index) {
    return index < num_before || find(group, index).has_value();
  };
  const auto num_found = static_cast<uint32_t>(first.size());
  uint32_t end = std::max(longest_prefix(num_found, has), num_before);
  for (uint32_t index = num_before; index < end; ++index) {
    if (!copy_block(source, first[index], sequence.block_tables.front()[index]))
      end = longest_prefix(index, has);
  }
  const auto copy_others = [&] {
    for (uint32_t group = 1; group < num_groups(); ++group) {
      const uint32_t begin = std::max(num_before, num_unseen_blocks(group, end * block_size_));
      for (uint32_t index = begin; index < end; ++index) {
        const auto found = find(group, index);
        if (found && copy_block(source, *found, sequence.block_tables[group][index])) continue;
        damaged.insert({group, index});
        return false;
      }
    }
    return true;
  };
  while (end > num_before && move_places(sequence, end)) {
    if (copy_others()) {
      // Behind what was never copied lies what the sequence had.
      for (uint32_t group = 1; group < num_groups(); ++group) {
        const uint32_t num_unseen = num_unseen_blocks(group, end * block_size_);
        give_back_before(std::min(num_before, num_unseen), sequence.block_tables[group]);
      }
      take_over(sequence, end - num_before);
      return end - num_before;
    }
    end = longest_prefix(end, has);
  }
  CHECK(move_places(sequence, num_before));
  return 0;
}

bool BlockManager::copy_block(const KvSource& source, const KvSource::Found& found, uint32_t id) {
  const KvSource::Copy copy = source.copy(found, index_->writable_block(id));
  if (copy == KvSource::Copy::kDamaged) ++num_dropped_;
  if (copy == KvSource::Copy::kIntact) ++num_adopted_;
  return copy == KvSource::Copy::kIntact;
}

bool BlockManager::move_places(Sequence& sequence, uint32_t num_blocks) {
  const uint32_t num_before = sequence.num_cached_tokens / block_size_;
  const auto first_of = [&](uint32_t group) {
    return std::max(num_before, num_unseen_blocks(group, num_blocks * block_size_));
  };
  // The blocks that have nothing yet.
  const auto new_blocks_of = [&](uint32_t group) {
    std::vector<uint32_t> ids;
    for (const uint32_t id : std::span(sequence.block_tables[group]).subspan(num_before))
      if (id != kNoBlock) ids.push_back(id);
    return ids;
  };
  uint64_t num_more = 0;
  for (uint32_t group = 0; group < num_groups(); ++group) {
    const size_t num_needed = num_blocks - std::min(num_blocks, first_of(group));
    num_more += num_needed - std::min(num_needed, new_blocks_of(group).size());
  }
  if (num_more > num_free_blocks()) return false;
  for (uint32_t group = 0; group < num_groups(); ++group) {
    if (windows_[group] == 0) continue;
    std::vector<uint32_t>& table = sequence.block_tables[group];
    const std::vector<uint32_t> ids = new_blocks_of(group);
    table.resize(num_before);
    table.resize(first_of(group), kNoBlock);
    table.insert(table.end(), ids.begin(), ids.end());
    grow(table, num_blocks);
  }
  give_back_unused(sequence);
  return true;
}

void BlockManager::take_over(Sequence& sequence, uint32_t num_blocks) {
  sequence.num_scheduled_tokens = num_blocks * block_size_;
  advance(sequence);
  sequence.num_scheduled_tokens = 0;
}

uint32_t BlockManager::common_size(const Sequence& sequence) {
  size_t size = sequence.block_tables.front().size();
  for (const std::vector<uint32_t>& table : sequence.block_tables) size = std::min(size, table.size());
  return static_cast<uint32_t>(size);
}

uint32_t BlockManager::num_lacking(const Sequence& sequence, uint32_t num_blocks) {
  size_t lacking = 0;
  for (const std::vector<uint32_t>& table : sequence.block_tables)
    lacking += num_blocks - std::min<size_t>(num_blocks, table.size());
  return static_cast<uint32_t>(lacking);
}

uint32_t BlockManager::num_places(const Sequence& sequence) const {
  return common_size(sequence) * block_size_ - sequence.num_cached_tokens;
}

void BlockManager::extend(Sequence& sequence) {
  uint32_t end = std::numeric_limits<uint32_t>::max();
  for (uint32_t group = 0; group < num_groups(); ++group)
    end = std::min(end, table_size(group, sequence, sequence.num_cached_tokens));
  // A block in one group alone would give no place.
  for (uint32_t size = common_size(sequence) + 1; size <= end; ++size) {
    if (num_lacking(sequence, size) > free_.size()) return;
    grow(sequence, size);
  }
}

uint32_t BlockManager::num_at_once(uint32_t group, uint32_t num_tokens) const {
  const uint32_t num_for_all = blocks_for(num_tokens);
  if (windows_[group] == 0) return num_for_all;
  // As many rows again as a row sees, so that parts of a prompt are long, if all groups have room for them.
  const uint32_t required = num_required_blocks(num_tokens, block_size_, {&windows_[group], 1});
  const uint32_t required_of_all = num_required(num_tokens);
  const uint32_t num_left = num_blocks() - std::min(num_blocks(), required_of_all);
  return std::min({num_for_all, required + std::min(required, num_left / num_windows_), num_blocks()});
}

uint32_t BlockManager::table_size(uint32_t group, const Sequence& sequence,
                                  uint32_t num_cached_tokens) const {
  const uint32_t num_tokens = sequence.num_tokens();
  return std::min(blocks_for(num_tokens),
                  num_unseen_blocks(group, num_cached_tokens) + num_at_once(group, num_tokens));
}

bool BlockManager::can_append(const Sequence& sequence) const {
  return num_lacking(sequence, blocks_for(sequence.num_tokens())) <= free_.size();
}

void BlockManager::may_append(Sequence& sequence) {
  grow(sequence, blocks_for(sequence.num_tokens()));
}

uint32_t BlockManager::num_draft_places(const Sequence& sequence) const {
  const uint64_t num_blocks = common_size(sequence) + free_.size() / num_groups();
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
  CHECK(sequence.num_cached_tokens <= common_size(sequence) * block_size_);
  for (; index < sequence.num_cached_tokens / block_size_; ++index) remember(sequence, index);
  for (uint32_t group = 0; group < num_groups(); ++group)
    give_back_before(num_unseen_blocks(group, sequence.num_cached_tokens), sequence.block_tables[group]);
  // A sequence that lacks only its last token takes a block when this is scheduled.
  if (num_windows_ > 0 && sequence.num_cached_tokens + 1 < sequence.num_tokens()) extend(sequence);
  give_back_unused(sequence);
}

void BlockManager::deallocate(Sequence& sequence) {
  // From the last block on, so that the blocks which other sequences are least likely to share are reused
  // first. Those of groups with a window are of no use without the blocks of the first group, so they come
  // before these.
  for (auto table = sequence.block_tables.rbegin(); table != sequence.block_tables.rend(); ++table)
    for (auto id = table->rbegin(); id != table->rend(); ++id)
      if (*id != kNoBlock) release(*id);
  sequence.block_tables.clear();
  sequence.num_cached_tokens = 0;
}

std::span<const uint32_t> BlockManager::tokens_of_block(const Sequence& sequence, uint32_t index) const {
  return std::span(sequence.token_ids).subspan(size_t{index} * block_size_, block_size_);
}

uint32_t BlockManager::num_unseen_blocks(uint32_t group, uint32_t position) const {
  const uint32_t window = windows_[group];
  // A prefix ends with a whole block, so what the row after it sees is kept until the next block is full.
  if (group > 0) position -= position % block_size_;
  if (window == 0 || position < window) return 0;
  return (position - window + 1) / block_size_;
}

BlockManager::Prefix BlockManager::find_prefix(const Sequence& sequence, uint32_t max_blocks) {
  std::vector<uint32_t> first;
  std::vector<BlockChain> chains = {chain_before_first(sequence.cache_salt)};
  while (first.size() < max_blocks) {
    const auto index = static_cast<uint32_t>(first.size());
    const uint64_t hash = hash_(chains.back().hash, tokens_of_block(sequence, index));
    const std::optional<uint32_t> id = find(chains.back(), hash, sequence, index);
    if (!id || !check_bytes(*id)) break;
    first.push_back(*id);
    chains.push_back({hash, blocks_[*id].content});
  }
  const auto has = [&](uint32_t group, uint32_t index) {
    const std::optional<uint32_t> id = find_content(group, chains[index + 1]);
    return id && check_bytes(*id);
  };
  Prefix prefix{.num_blocks = longest_prefix(static_cast<uint32_t>(first.size()), has),
                .tables = Tables(num_groups()),
                .chain = {}};
  prefix.chain = chains[prefix.num_blocks];
  for (uint32_t group = 0; group < num_groups(); ++group) {
    std::vector<uint32_t>& table = prefix.tables[group];
    table.resize(num_unseen_blocks(group, prefix.num_blocks * block_size_), kNoBlock);
    for (auto i = static_cast<uint32_t>(table.size()); i < prefix.num_blocks; ++i)
      table.push_back(group == 0 ? first[i] : *find_content(group, chains[i + 1]));
  }
  return prefix;
}

template <typename Has>
uint32_t BlockManager::longest_prefix(uint32_t num_blocks, const Has& has) const {
  // The last block that is needed and missing.
  const auto missing = [&]() -> std::optional<uint32_t> {
    for (uint32_t group = 1; group < num_groups(); ++group) {
      const uint32_t num_unseen = num_unseen_blocks(group, num_blocks * block_size_);
      for (uint32_t i = num_blocks; i > num_unseen; --i)
        if (!has(group, i - 1)) return i - 1;
    }
    return std::nullopt;
  };
  // No longer prefix than up to this block does without it.
  while (const std::optional<uint32_t> index = missing()) num_blocks = *index;
  return num_blocks;
}

std::optional<uint32_t> BlockManager::find_content(uint32_t group, const BlockChain& chain) const {
  const auto found = blocks_of_hash_[group].find(*chain.hash);
  if (found == blocks_of_hash_[group].end() || blocks_[found->second].content != chain.content)
    return std::nullopt;
  return found->second;
}

std::optional<uint32_t> BlockManager::find(const BlockChain& chain, uint64_t hash, const Sequence& sequence,
                                           uint32_t index) const {
  const auto found = blocks_of_hash_.front().find(hash);
  if (found == blocks_of_hash_.front().end()) return std::nullopt;
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
  const uint64_t content = same ? blocks_[*same].content : ++last_content_;
  for (uint32_t group = 0; group < num_groups(); ++group) {
    const uint32_t id = sequence.block_tables[group][index];
    if (id == kNoBlock) continue;
    Block& block = blocks_[id];
    block.content = content;
    block.previous_content = chain.content;
    block.salt = sequence.cache_salt;
    block.token_ids.assign(token_ids.begin(), token_ids.end());
    // If two blocks have the same hash, a lookup finds the newer one, as in nano-vLLM.
    auto& block_of_hash = blocks_of_hash_[group];
    if (const auto owner = block_of_hash.find(hash); owner != block_of_hash.end()) forget(owner->second);
    block.group = group;
    block.hash = hash;
    block_of_hash[hash] = id;
    if (index_ != nullptr)
      index_->publish(id, {group, hash, content, block.previous_content, block.salt, block.token_ids});
  }
  chain = {hash, content};
}

void BlockManager::forget(uint32_t id) {
  Block& block = blocks_[id];
  blocks_of_hash_[block.group].erase(*block.hash);
  block.hash.reset();
  block.unchecked.reset();
  if (index_ != nullptr) index_->invalidate(id);
  if (block.num_holders == 0) --num_reusable_;
}

void BlockManager::give_back_before(uint32_t index, std::vector<uint32_t>& table) {
  // From the last block on, as in deallocate, down to the blocks that an earlier call has given back.
  for (; index > 0 && table[index - 1] != kNoBlock; --index) {
    release(table[index - 1]);
    table[index - 1] = kNoBlock;
  }
}

void BlockManager::give_back_unused(Sequence& sequence) {
  for (std::vector<uint32_t>& table : sequence.block_tables) {
    while (table.size() > blocks_for(sequence.num_tokens())) {
      const uint32_t id = table.back();
      table.pop_back();
      release(id);
      // The block has no known content, so it is the next to be taken. At the end of the list, the drafts of
      // a few sequences would soon evict all known contents.
      free_.splice(free_.begin(), free_, blocks_[id].place);
    }
  }
}

void BlockManager::grow(Sequence& sequence, size_t num_blocks) {
  for (std::vector<uint32_t>& table : sequence.block_tables) grow(table, num_blocks);
}

void BlockManager::grow(std::vector<uint32_t>& table, size_t num_blocks) {
  while (table.size() < num_blocks) table.push_back(take_free_block());
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
    if (!sequence->holds_blocks()) continue;
    CHECK(sequence->block_tables.size() == num_groups());
    for (uint32_t group = 0; group < num_groups(); ++group) {
      const std::vector<uint32_t>& table = sequence->block_tables[group];
      const uint32_t num_unseen = num_unseen_blocks(group, sequence->num_cached_tokens);
      for (uint32_t i = 0; i < table.size(); ++i) {
        CHECK((table[i] == kNoBlock) == (i < num_unseen));
        if (i >= num_unseen) ++num_holders.at(table[i]);
      }
      CHECK(sequence->num_cached_tokens <= table.size() * block_size_);
    }
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
    CHECK(blocks_of_hash_.at(block.group).at(*block.hash) == id);
    CHECK(block.content > 0 && block.content <= last_content_ && block.previous_content < block.content);
  }
  for (const auto& block_of_hash : blocks_of_hash_) num_remembered -= block_of_hash.size();
  CHECK(num_remembered == 0);
}

}  // namespace runnel
