#include "runner/engine/block_manager.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "runner/check.h"

namespace runnel {

BlockManager::BlockManager(uint32_t num_blocks, uint32_t block_size, std::vector<uint32_t> windows,
                           BlockPool::Hash hash, KvIndex* index, const KvSources* sources)
    : windows_(block_size, std::move(windows)),
      pool_(num_blocks, windows_.num_groups(), hash, index),
      sources_(sources) {
  CHECK(index != nullptr || sources == nullptr);
}

uint32_t BlockManager::max_cached_blocks(const Sequence& sequence) const {
  return sequence.needs_all_rows() ? 0 : blocks_for(sequence.num_tokens()) - 1;
}

std::optional<uint32_t> BlockManager::can_allocate(const Sequence& sequence) {
  const Prefix prefix = find_prefix(sequence, max_cached_blocks(sequence));
  const uint32_t num_cached_tokens = prefix.num_blocks * windows_.block_size();
  uint32_t num_from_free = 0;
  for (uint32_t group = 0; group < num_groups(); ++group) {
    num_from_free +=
        table_size(group, sequence, num_cached_tokens) - windows_.num_unseen(group, num_cached_tokens);
    for (const uint32_t id : prefix.tables[group])
      if (id != kNoBlock && pool_.is_held(id)) --num_from_free;
  }
  if (num_from_free > pool_.num_free()) return std::nullopt;
  return prefix.num_blocks;
}

void BlockManager::allocate(Sequence& sequence, uint32_t num_cached_blocks) {
  CHECK(!sequence.holds_blocks());
  Prefix prefix = find_prefix(sequence, num_cached_blocks);
  CHECK(prefix.num_blocks == num_cached_blocks);
  sequence.block_tables = std::move(prefix.tables);
  sequence.num_cached_tokens = num_cached_blocks * windows_.block_size();
  sequence.chain = prefix.chain;
  for (const std::vector<uint32_t>& table : sequence.block_tables)
    for (const uint32_t id : table)
      if (id != kNoBlock) pool_.hold(id);
  for (uint32_t group = 0; group < num_groups(); ++group)
    grow(sequence.block_tables[group], table_size(group, sequence, sequence.num_cached_tokens));
}

uint32_t BlockManager::copy_from_sources(Sequence& sequence, KvLook& look) {
  uint32_t num_copied = 0;
  for (const uint32_t descriptor : sequence.kv_from) {
    if (sequence.num_cached_tokens / windows_.block_size() >= max_cached_blocks(sequence)) break;
    if (const KvSource* source = look.at(descriptor)) num_copied += copy_from(*source, sequence);
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
    const uint64_t hash = pool_.hash(chain, token_ids);
    auto found = source.find(hash, chain.content, sequence.cache_salt, token_ids);
    if (!found) break;
    chain = {hash, found->content.content};
    first.push_back(*std::move(found));
  }
  return num_groups() == 1 ? copy_chain(source, first, sequence) : copy_groups(source, first, sequence);
}

uint32_t BlockManager::copy_chain(const KvSource& source, std::span<const KvSource::Found> first,
                                  Sequence& sequence) {
  const uint32_t num_before = sequence.num_cached_tokens / windows_.block_size();
  uint32_t index = num_before;
  for (; index < first.size(); ++index) {
    if (num_places(sequence) < windows_.block_size()) extend(sequence);
    if (num_places(sequence) < windows_.block_size()) break;
    if (!pool_.copy(source, first[index], sequence.block_tables.front()[index])) break;
    take_over(sequence, 1);
  }
  return index - num_before;
}

uint32_t BlockManager::copy_groups(const KvSource& source, std::span<const KvSource::Found> first,
                                   Sequence& sequence) {
  const uint32_t num_before = sequence.num_cached_tokens / windows_.block_size();
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
    if (!pool_.copy(source, first[index], sequence.block_tables.front()[index]))
      end = longest_prefix(index, has);
  }
  const auto copy_others = [&] {
    for (uint32_t group = 1; group < num_groups(); ++group) {
      const uint32_t begin = std::max(num_before, windows_.num_unseen(group, end * windows_.block_size()));
      for (uint32_t index = begin; index < end; ++index) {
        const auto found = find(group, index);
        if (found && pool_.copy(source, *found, sequence.block_tables[group][index])) continue;
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
        const uint32_t num_unseen = windows_.num_unseen(group, end * windows_.block_size());
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

bool BlockManager::move_places(Sequence& sequence, uint32_t num_blocks) {
  const uint32_t num_before = sequence.num_cached_tokens / windows_.block_size();
  const auto first_of = [&](uint32_t group) {
    return std::max(num_before, windows_.num_unseen(group, num_blocks * windows_.block_size()));
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
  if (num_more > pool_.num_free()) return false;
  for (uint32_t group = 0; group < num_groups(); ++group) {
    if (!windows_.has_window(group)) continue;
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
  sequence.num_scheduled_tokens = num_blocks * windows_.block_size();
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
  return common_size(sequence) * windows_.block_size() - sequence.num_cached_tokens;
}

void BlockManager::extend(Sequence& sequence) {
  uint32_t end = std::numeric_limits<uint32_t>::max();
  for (uint32_t group = 0; group < num_groups(); ++group)
    end = std::min(end, table_size(group, sequence, sequence.num_cached_tokens));
  // A block in one group alone would give no place.
  for (uint32_t size = common_size(sequence) + 1; size <= end; ++size) {
    if (num_lacking(sequence, size) > pool_.num_free()) return;
    grow(sequence, size);
  }
}

uint32_t BlockManager::table_size(uint32_t group, const Sequence& sequence,
                                  uint32_t num_cached_tokens) const {
  const uint32_t num_tokens = sequence.num_tokens();
  return std::min(blocks_for(num_tokens), windows_.num_unseen(group, num_cached_tokens) +
                                              windows_.num_at_once(group, num_tokens, pool_.num_blocks()));
}

bool BlockManager::can_append(const Sequence& sequence) const {
  return num_lacking(sequence, blocks_for(sequence.num_tokens())) <= pool_.num_free();
}

void BlockManager::may_append(Sequence& sequence) {
  grow(sequence, blocks_for(sequence.num_tokens()));
}

uint32_t BlockManager::num_draft_places(const Sequence& sequence) const {
  const uint64_t num_blocks = common_size(sequence) + pool_.num_free() / num_groups();
  const uint64_t num_places = num_blocks * windows_.block_size() - sequence.num_tokens();
  return static_cast<uint32_t>(std::min<uint64_t>(num_places, std::numeric_limits<uint32_t>::max()));
}

void BlockManager::append_drafts(Sequence& sequence) {
  grow(sequence, blocks_for(sequence.num_tokens() + sequence.num_drafts));
}

void BlockManager::reserve_next(Sequence& sequence) {
  const uint32_t num_blocks = blocks_for(sequence.num_tokens() + sequence.num_drafts + 1);
  if (num_lacking(sequence, num_blocks) <= pool_.num_free()) grow(sequence, num_blocks);
}

void BlockManager::advance(Sequence& sequence) {
  CHECK(sequence.num_drafts == 0);
  uint32_t index = sequence.num_cached_tokens / windows_.block_size();
  sequence.num_cached_tokens += sequence.num_scheduled_tokens;
  CHECK(sequence.num_cached_tokens <= common_size(sequence) * windows_.block_size());
  for (; index < sequence.num_cached_tokens / windows_.block_size(); ++index) remember(sequence, index);
  for (uint32_t group = 0; group < num_groups(); ++group)
    give_back_before(windows_.num_unseen(group, sequence.num_cached_tokens), sequence.block_tables[group]);
  // A sequence that lacks only its last token takes a block when this is scheduled.
  if (windows_.has_windows() && sequence.num_cached_tokens + 1 < sequence.num_tokens()) extend(sequence);
  give_back_unused(sequence);
}

void BlockManager::deallocate(Sequence& sequence) {
  // From the last block on, so that the blocks which other sequences are least likely to share are reused
  // first. Those of groups with a window are of no use without the blocks of the first group, so they come
  // before these.
  for (auto table = sequence.block_tables.rbegin(); table != sequence.block_tables.rend(); ++table)
    for (auto id = table->rbegin(); id != table->rend(); ++id)
      if (*id != kNoBlock) pool_.release(*id);
  sequence.block_tables.clear();
  sequence.num_cached_tokens = 0;
}

std::span<const uint32_t> BlockManager::tokens_of_block(const Sequence& sequence, uint32_t index) const {
  return std::span(sequence.token_ids).subspan(size_t{index} * windows_.block_size(), windows_.block_size());
}

BlockManager::Prefix BlockManager::find_prefix(const Sequence& sequence, uint32_t max_blocks) {
  std::vector<uint32_t> first;
  std::vector<BlockChain> chains = {chain_before_first(sequence.cache_salt)};
  while (first.size() < max_blocks) {
    const auto token_ids = tokens_of_block(sequence, static_cast<uint32_t>(first.size()));
    const auto found = pool_.find(chains.back(), sequence.cache_salt, token_ids);
    if (!found) break;
    first.push_back(found->id);
    chains.push_back(found->chain);
  }
  const auto has = [&](uint32_t group, uint32_t index) {
    return pool_.find_beside(chains[index + 1], group).has_value();
  };
  Prefix prefix{.num_blocks = longest_prefix(static_cast<uint32_t>(first.size()), has),
                .tables = Tables(num_groups()),
                .chain = {}};
  prefix.chain = chains[prefix.num_blocks];
  for (uint32_t group = 0; group < num_groups(); ++group) {
    std::vector<uint32_t>& table = prefix.tables[group];
    table.resize(windows_.num_unseen(group, prefix.num_blocks * windows_.block_size()), kNoBlock);
    for (auto i = static_cast<uint32_t>(table.size()); i < prefix.num_blocks; ++i)
      table.push_back(group == 0 ? first[i] : *pool_.find_beside(chains[i + 1], group));
  }
  return prefix;
}

template <typename Has>
uint32_t BlockManager::longest_prefix(uint32_t num_blocks, const Has& has) const {
  // The last block that is needed and missing.
  const auto missing = [&]() -> std::optional<uint32_t> {
    for (uint32_t group = 1; group < num_groups(); ++group) {
      const uint32_t num_unseen = windows_.num_unseen(group, num_blocks * windows_.block_size());
      for (uint32_t i = num_blocks; i > num_unseen; --i)
        if (!has(group, i - 1)) return i - 1;
    }
    return std::nullopt;
  };
  // No longer prefix than up to this block does without it.
  while (const std::optional<uint32_t> index = missing()) num_blocks = *index;
  return num_blocks;
}

void BlockManager::remember(Sequence& sequence, uint32_t index) {
  if (sequence.sees_ahead) return;
  const KvContent content =
      pool_.content_after(sequence.chain, sequence.cache_salt, tokens_of_block(sequence, index));
  for (uint32_t group = 0; group < num_groups(); ++group) {
    const uint32_t id = sequence.block_tables[group][index];
    if (id != kNoBlock) pool_.remember(id, group, content);
  }
  sequence.chain = {content.hash, content.content};
}

void BlockManager::give_back_before(uint32_t index, std::vector<uint32_t>& table) {
  // From the last block on, as in deallocate, down to the blocks that an earlier call has given back.
  for (; index > 0 && table[index - 1] != kNoBlock; --index) {
    pool_.release(table[index - 1]);
    table[index - 1] = kNoBlock;
  }
}

void BlockManager::give_back_unused(Sequence& sequence) {
  for (std::vector<uint32_t>& table : sequence.block_tables) {
    while (table.size() > blocks_for(sequence.num_tokens())) {
      pool_.release_unfilled(table.back());
      table.pop_back();
    }
  }
}

void BlockManager::grow(Sequence& sequence, size_t num_blocks) {
  for (std::vector<uint32_t>& table : sequence.block_tables) grow(table, num_blocks);
}

void BlockManager::grow(std::vector<uint32_t>& table, size_t num_blocks) {
  while (table.size() < num_blocks) table.push_back(pool_.take());
}

void BlockManager::check_integrity(std::span<const Sequence* const> sequences) const {
  std::vector<uint32_t> num_holders(pool_.num_blocks());
  for (const Sequence* sequence : sequences) {
    if (!sequence->holds_blocks()) continue;
    CHECK(sequence->block_tables.size() == num_groups());
    for (uint32_t group = 0; group < num_groups(); ++group) {
      const std::vector<uint32_t>& table = sequence->block_tables[group];
      const uint32_t num_unseen = windows_.num_unseen(group, sequence->num_cached_tokens);
      for (uint32_t i = 0; i < table.size(); ++i) {
        CHECK((table[i] == kNoBlock) == (i < num_unseen));
        if (i >= num_unseen) ++num_holders.at(table[i]);
      }
      CHECK(sequence->num_cached_tokens <= table.size() * windows_.block_size());
    }
  }
  pool_.check_integrity(num_holders);
}

}  // namespace runnel
