// Blocks of a model that mixes layers with and without a window: what a sequence holds, what another finds of
// it, and what a next runner or another one takes over.
#include <deque>
#include <memory>
#include <random>

#include "test/fixtures/kv_files.h"
#include "test/fixtures/kv_mutations.h"
#include "test/fixtures/scheduling.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kBlock = kKeptBlockSize;
constexpr uint32_t kWindow = 10;
const std::vector<uint32_t> kMixed = {0, kWindow, kWindow};
constexpr uint32_t kGroups = 3;
// What a row sees lies in at most so many blocks.
constexpr uint32_t kMaxSeen = (kWindow - 1) / kBlock + 2;
constexpr uint32_t kSource = 7;

uint32_t num_held(const BlockManager& manager) {
  return manager.pool().num_blocks() - manager.pool().num_free();
}

KvSources source_of(const MemoryFile& file) {
  KvSources sources;
  sources.add(kSource, passed(file));
  return sources;
}

// What a fresh runner with so many blocks takes over of the text. CHECKs that it goes on with it.
uint32_t taken_from(const KvSources& sources, Sequence text, uint32_t num_blocks = 100) {
  const KeptBlocks own(num_blocks);
  KeptLife life(own, kMixed, &sources);
  text.kv_from = {kSource};
  REQUIRE(life.start(text));
  KvLook look = life.manager.look();
  life.manager.copy_from_sources(text, look);
  RUNNEL_CHECK(own.has_cached_rows(text));
  life.manager.check_integrity(std::vector<const Sequence*>{&text});
  const uint32_t num_taken = text.num_cached_tokens;
  while (text.num_cached_tokens < text.num_tokens()) life.compute(text, 3);
  RUNNEL_CHECK(own.has_cached_rows(text));
  life.manager.check_integrity(std::vector<const Sequence*>{&text});
  return num_taken;
}

// Takes all blocks that are free, so that what they had is forgotten.
void take_free(KeptLife& life, std::deque<Sequence>& others) {
  while (life.manager.pool().num_free() >= kGroups) {
    others.push_back(text_of(10'000 + static_cast<uint32_t>(others.size()), 1));
    life.fill(others.back());
  }
}

}  // namespace

TEST_CASE("groups: at every length of a text, those with a window hold no more than it needs") {
  BlockManager blocks(400, kBlock, kMixed);
  Sequence text = sequence_of(1, count_from(1, 1));
  blocks.allocate(text, *blocks.can_allocate(text));
  for (uint32_t num_tokens = 1; num_tokens <= 600; ++num_tokens) {
    text.num_scheduled_tokens = 1;
    blocks.advance(text);
    CHECK(num_held(blocks) <= blocks.windows().blocks_for(num_tokens) + 2 * kMaxSeen);
    CHECK(num_held(blocks) <= blocks.windows().num_required(num_tokens));
    // The next row has position num_tokens.
    const uint32_t first_seen = num_tokens + 1 < kWindow ? 0 : num_tokens + 1 - kWindow;
    for (uint32_t i = first_seen / kBlock; i <= (num_tokens - 1) / kBlock; ++i)
      for (const std::vector<uint32_t>& table : text.block_tables) CHECK(table[i] != kNoBlock);
    blocks.check_integrity(std::vector<const Sequence*>{&text});
    text.token_ids.push_back(num_tokens);
    REQUIRE(blocks.can_append(text));
    blocks.may_append(text);
  }
  CHECK(num_held(blocks) <= 151 + 2 * kMaxSeen);
  blocks.deallocate(text);
  CHECK(num_held(blocks) == 0);
}

TEST_CASE("groups: a long prompt is computed in the fewest blocks that it requires, and not in one less") {
  constexpr uint32_t kTokens = 400;
  const uint32_t required = num_required_blocks(kTokens, kBlock, kMixed);
  CHECK(required == 100 + 2 * kMaxSeen);
  CHECK(num_possible_tokens(required, kBlock, kMixed) == kTokens);
  CHECK(num_possible_tokens(required - 1, kBlock, kMixed) == kTokens - kBlock);
  const KeptBlocks kept(required);
  KeptLife life(kept, kMixed);
  Sequence text = text_of(1, kTokens);
  life.fill(text);
  CHECK(text.num_cached_tokens == kTokens);
  CHECK(kept.has_cached_rows(text));
  const KeptBlocks fewer(required - 1);
  KeptLife other(fewer, kMixed);
  Sequence too_long = text_of(1, kTokens);
  CHECK_FALSE(other.start(too_long));
  CHECK(num_required_blocks(0, kBlock, kMixed) == 0);
  CHECK(num_possible_tokens(kGroups - 1, kBlock, kMixed) == 0);
  CHECK(num_possible_tokens(kGroups, kBlock, kMixed) == kBlock);
}

TEST_CASE("groups: a text is found as far as all of its groups have what comes next") {
  for (uint32_t num_tokens = 1; num_tokens < 60; ++num_tokens) {
    const KeptBlocks kept(100);
    KeptLife life(kept, kMixed);
    Sequence text = text_of(1, num_tokens);
    life.fill(text);
    CHECK(life.find(text_of(1, num_tokens + 1)) == num_tokens / kBlock * kBlock);
    life.manager.deallocate(text);
    CHECK(life.find(text_of(1, num_tokens + 1)) == num_tokens / kBlock * kBlock);
    CHECK(life.find(text_of(2, num_tokens + 1)) == 0);
  }
}

TEST_CASE("groups: what windows have left is not needed to find a text, what they see is") {
  const KeptBlocks kept(50);
  KeptLife life(kept, kMixed);
  Sequence text = text_of(1, 80);
  life.fill(text);
  // It holds 20 blocks of the first group, and the last ones of the others. Another text takes all others,
  // and so overwrites what the windows have left.
  CHECK(life.manager.pool().num_free() == 24);
  Sequence other = text_of(500, 32);
  life.fill(other);
  CHECK(other.num_cached_tokens == 32);
  life.manager.check_integrity(std::vector<const Sequence*>{&text, &other});
  CHECK(life.find(text_of(1, 81)) == 80);
  // A text that goes another way at a place that the windows have left is computed from its beginning.
  Sequence forked = text_of(1, 81);
  forked.token_ids[42] = 9999;
  CHECK(life.find(forked) == 0);
  // And so is one whose last blocks are gone.
  life.manager.deallocate(text);
  life.manager.deallocate(other);
  Sequence third = text_of(900, 60);
  life.fill(third);
  CHECK(life.find(text_of(1, 81)) == 0);
}

TEST_CASE("groups: hashes that collide never make one content pass for another") {
  const auto weak = [](std::optional<uint64_t>, std::span<const uint32_t> ids) { return uint64_t{ids[0]}; };
  const KeptBlocks kept(60);
  KeptLife life(kept, kMixed, nullptr, weak);
  std::vector<Sequence> texts;
  for (const uint32_t other : {5u, 6u}) {
    Sequence text = text_of(1, 20);
    for (uint32_t i = 0; i < 20; ++i) text.token_ids[i] = i % kBlock == 0 ? 1 + i / kBlock : other;
    texts.push_back(std::move(text));
  }
  for (Sequence& text : texts) {
    CHECK(life.find(text) == 0);
    life.fill(text);
    CHECK(life.find(text) == 16);
  }
  CHECK(life.find(texts.front()) == 0);
}

TEST_CASE("groups: drafts take places in all groups, and wrong ones give them back") {
  BlockManager blocks(12, kBlock, kMixed);
  Sequence text = sequence_of(1, count_from(1, 8));
  blocks.allocate(text, *blocks.can_allocate(text));
  text.num_scheduled_tokens = 8;
  blocks.advance(text);
  text.token_ids.push_back(9);
  CHECK(blocks.can_append(text));
  blocks.may_append(text);
  CHECK(num_held(blocks) == 9);
  CHECK(blocks.num_draft_places(text) == 3 + kBlock);
  text.num_drafts = 3 + kBlock;
  for (uint32_t i = 0; i < text.num_drafts; ++i) text.token_ids.push_back(7);
  blocks.append_drafts(text);
  CHECK(num_held(blocks) == 12);
  text.num_scheduled_tokens = 1 + text.num_drafts;
  text.drop_drafts();
  text.token_ids.push_back(10);
  blocks.advance(text);
  CHECK(num_held(blocks) == 9);
  blocks.check_integrity(std::vector<const Sequence*>{&text});
  // A block is there for a part of the groups only.
  Sequence other = sequence_of(2, {3});
  CHECK(blocks.can_allocate(other));
  for (uint32_t id = 11; id <= 12; ++id) text.token_ids.push_back(id);
  blocks.allocate(other, 0);
  text.token_ids.push_back(13);
  CHECK_FALSE(blocks.can_append(text));
}

TEST_CASE("groups: whenever a runner dies, the next one finds all full blocks of a text that it held") {
  for (uint32_t num_tokens = 1; num_tokens < 80; ++num_tokens) {
    CAPTURE(num_tokens);
    const KeptBlocks kept(60);
    {
      KeptLife life(kept, kMixed);
      Sequence text = text_of(1, num_tokens);
      life.fill(text);
      std::deque<Sequence> others;
      take_free(life, others);
    }
    KeptLife next(kept, kMixed);
    next.manager.check_integrity({});
    CHECK(next.manager.pool().num_dropped() == 0);
    Sequence again = text_of(1, num_tokens + 1);
    REQUIRE(next.start(again));
    CHECK(again.num_cached_tokens == num_tokens / kBlock * kBlock);
    CHECK(kept.has_cached_rows(again));
    next.compute(again, 100);
    CHECK(kept.has_cached_rows(again));
  }
}

TEST_CASE("groups: another runner copies the blocks of the first group, and of others what windows see") {
  for (uint32_t num_tokens = 1; num_tokens < 80; ++num_tokens) {
    CAPTURE(num_tokens);
    const KeptBlocks kept(60);
    {
      KeptLife life(kept, kMixed);
      Sequence text = text_of(1, num_tokens);
      life.fill(text);
      std::deque<Sequence> others;
      take_free(life, others);
    }
    const MemoryFile file = file_with(kept);
    const KvSources sources = source_of(file);
    CHECK(taken_from(sources, text_of(1, num_tokens + 1)) == num_tokens / kBlock * kBlock);
    // Also with no block more than the text requires.
    const uint32_t required = num_required_blocks(num_tokens + 1, kBlock, kMixed);
    CHECK(taken_from(sources, text_of(1, num_tokens + 1), required) == num_tokens / kBlock * kBlock);
  }
  const KeptBlocks kept(400);
  KeptLife(kept, kMixed).fill(*std::make_unique<Sequence>(text_of(1, 400)));
  const MemoryFile file = file_with(kept);
  const KvSources sources = source_of(file);
  const KeptBlocks own(400);
  KeptLife life(own, kMixed, &sources);
  Sequence text = text_of(1, 400);
  text.kv_from = {kSource};
  REQUIRE(life.start(text));
  KvLook look = life.manager.look();
  CHECK(life.manager.copy_from_sources(text, look) == 99);
  CHECK(life.manager.pool().num_adopted() <= 99 + 2 * kMaxSeen);
}

TEST_CASE("groups: a text that is here in part is copied from where it ends") {
  const KeptBlocks kept(200);
  KeptLife(kept, kMixed).fill(*std::make_unique<Sequence>(text_of(1, 101)));
  const MemoryFile file = file_with(kept);
  const KvSources sources = source_of(file);
  for (uint32_t num_here = 1; num_here < 101; ++num_here) {
    CAPTURE(num_here);
    const KeptBlocks own(200);
    KeptLife life(own, kMixed, &sources);
    Sequence here = text_of(1, num_here);
    life.fill(here);
    Sequence text = text_of(1, 101);
    text.kv_from = {kSource};
    REQUIRE(life.start(text));
    CHECK(text.num_cached_tokens == num_here / kBlock * kBlock);
    KvLook look = life.manager.look();
    life.manager.copy_from_sources(text, look);
    CHECK(text.num_cached_tokens == 100);
    CHECK(own.has_cached_rows(text));
    life.manager.check_integrity(std::vector<const Sequence*>{&here, &text});
    life.compute(text, 1);
    CHECK(own.has_cached_rows(text));
  }
}

TEST_CASE("groups: of a source whose blocks are damaged, no wrong row is taken and the rest goes on") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  uint32_t num_shorter = 0, num_none = 0;
  for (uint32_t round = 0; round < 400; ++round) {
    const KeptBlocks kept(200);
    KeptLife(kept, kMixed).fill(*std::make_unique<Sequence>(text_of(1, 61)));
    // Blocks 0 to 44 have been taken.
    for (uint64_t i = random() % 4; i > 0; --i)
      kept.blocks()[random() % (45 * kept.shape.block_bytes)] ^= static_cast<std::byte>(1u << random() % 8);
    const MemoryFile file = file_with(kept);
    const KvSources sources = source_of(file);
    const uint32_t num_taken = taken_from(sources, text_of(1, 61));  // checks all rows
    CHECK(num_taken <= 60);
    num_shorter += num_taken > 0 && num_taken < 60;
    num_none += num_taken == 0;
  }
  CHECK(num_shorter > 10);
  CHECK(num_none < 350);
}

TEST_CASE("groups: mutated indexes crash no runner, and give no tenant another one's blocks") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  fuzz::Random random(seed);
  const KeptBlocks cache = cache_of_tenants(kMixed);
  const std::string whole(reinterpret_cast<const char*>(cache.index().data()), cache.index().size());
  const MutatedOutcome before = outcome_of(whole, cache, kMixed);
  CHECK(before.num_dropped == 0);
  MutatedOutcome all{};
  constexpr uint32_t kNumIndexes = 2'000;
  for (uint32_t i = 0; i < kNumIndexes; ++i) {
    std::string index = whole;
    mutate_index(index, cache.shape.num_blocks, random);
    const MutatedOutcome outcome = outcome_of(index, cache, kMixed);
    all.num_adopted += outcome.num_adopted;
    all.num_dropped += outcome.num_dropped;
    all.num_found += outcome.num_found;
  }
  CHECK(all.num_adopted > 10 * kNumIndexes);
  CHECK(all.num_dropped > kNumIndexes / 2);
  CHECK(all.num_found > 10 * kNumIndexes);
}

TEST_CASE("groups: with fewer groups the blocks of the others are dropped") {
  const KeptBlocks cache = cache_of_tenants(kMixed);
  KeptLife life(cache, {0});
  life.manager.check_integrity({});
  CHECK(life.manager.pool().num_adopted() > 0);
  for (const Sequence& text : texts_of_tenants()) (void)life.find(text);
}

TEST_CASE("groups: requests that do not fit together are preempted and computed again") {
  constexpr uint32_t kMaxTokens = 60;
  Scheduler scheduler({.max_num_batched_tokens = 32,
                       .max_num_seqs = 8,
                       .block_size = kBlock,
                       .num_blocks = num_required_blocks(100, kBlock, kMixed),
                       .windows = kMixed});
  std::vector<Sequence> sequences;
  for (uint32_t id = 1; id <= 6; ++id)
    sequences.push_back(sequence_of(id, count_from(100 * id, 8), kMaxTokens));
  for (Sequence& sequence : sequences) scheduler.add(sequence);
  for (uint32_t num_steps = 0; scheduler.has_work(); ++num_steps) {
    REQUIRE(num_steps < 5000);
    step(scheduler);
    scheduler.check_integrity();
  }
  for (const Sequence& sequence : sequences) {
    CHECK(sequence.num_generated() == kMaxTokens);
    for (uint32_t i = sequence.num_prompt_tokens; i < sequence.num_tokens(); ++i)
      CHECK(sequence.token_ids[i] == next_token(sequence, i));
  }
  CHECK(scheduler.counts().num_preemptions > 0);
  CHECK(scheduler.blocks().pool().num_free() == scheduler.blocks().pool().num_blocks());
}

}  // namespace runnel
