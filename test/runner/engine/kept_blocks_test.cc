// A block manager begins with what the last one has left in the index.
#include "test/fixtures/kept_blocks.h"

#include <random>

#include "test/fixtures/kv_mutations.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// The tokens that a life after this one finds of a text.
uint32_t find_next(const KeptBlocks& kept, const Sequence& text) {
  const KeptBlocks copy = kept;
  return KeptLife(copy).find(text);
}

}  // namespace

TEST_CASE("kept blocks: the next manager shares what was filled, but for a block that was not full") {
  const KeptBlocks kept;
  {
    KeptLife life(kept);
    CHECK(life.manager.pool().num_adopted() == 0);
    Sequence held = text_of(1, 11);
    life.fill(held);  // and never gives it back
    Sequence ended = text_of(50, 9);
    life.fill(ended);
    life.manager.deallocate(ended);
  }
  KeptLife next(kept);
  CHECK(next.manager.pool().num_adopted() == 4);
  CHECK(next.manager.pool().num_dropped() == 0);
  CHECK(next.manager.pool().num_reusable() == 4);
  CHECK(next.manager.pool().num_free() == 16);
  next.manager.check_integrity({});
  CHECK(next.find(text_of(1, 11)) == 8);
  CHECK(next.find(text_of(50, 9)) == 8);
  CHECK(next.find(text_of(2, 9)) == 0);
  // And it goes on from there.
  Sequence longer = text_of(1, 20);
  next.fill(longer);
  next.manager.check_integrity(std::vector<const Sequence*>{&longer});
  CHECK(find_next(kept, text_of(1, 21)) == 20);
}

TEST_CASE("kept blocks: a text is found under its own salt only") {
  const KeptBlocks kept = cache_of_tenants();
  for (const Sequence& text : texts_of_tenants()) {
    CHECK(find_next(kept, text) > 0);
    for (const char* salt : {"", "a", "b", "c"}) {
      Sequence other = text;
      other.cache_salt = salt;
      CHECK((find_next(kept, other) > 0) == (std::string(salt) != "c"));
    }
  }
  const KeptBlocks one_tenant;
  {
    KeptLife life(one_tenant);
    Sequence text = text_of(1, 9, "a");
    life.fill(text);
  }
  CHECK(find_next(one_tenant, text_of(1, 9, "a")) == 8);
  CHECK(find_next(one_tenant, text_of(1, 9, "b")) == 0);
  CHECK(find_next(one_tenant, text_of(1, 9)) == 0);
}

TEST_CASE("kept blocks: those that were held when the runner died are reused last") {
  const KeptBlocks kept(6);
  {
    KeptLife life(kept);
    Sequence held = text_of(1, 8);
    life.fill(held);
    Sequence early = text_of(30, 4);
    life.fill(early);
    Sequence late = text_of(60, 4);
    life.fill(late);
    life.manager.deallocate(late);
    life.manager.deallocate(early);
  }
  // Two blocks were never used, then come those that were given back first.
  const std::vector<std::pair<uint32_t, std::vector<uint32_t>>> found_after = {
      {8, {8, 4, 4}}, {12, {8, 4, 0}}, {16, {8, 0, 0}}, {20, {4, 0, 0}}};
  for (const auto& [num_new_tokens, found] : found_after) {
    const KeptBlocks copy = kept;
    KeptLife next(copy);
    Sequence text = text_of(90, num_new_tokens);
    next.fill(text);
    next.manager.deallocate(text);
    CAPTURE(num_new_tokens);
    CHECK(find_next(copy, text_of(1, 9)) == found[0]);
    CHECK(find_next(copy, text_of(30, 5)) == found[1]);
    CHECK(find_next(copy, text_of(60, 5)) == found[2]);
  }
}

TEST_CASE("kept blocks: a block whose bytes were damaged is dropped when it is needed, and counted") {
  const KeptBlocks kept;
  Sequence text = text_of(1, 17);
  {
    KeptLife life(kept);
    life.fill(text);
  }
  kept.blocks()[text.block_tables[0][2] * kept.shape.block_bytes + 5] ^= std::byte{16};
  KeptLife next(kept);
  CHECK(next.manager.pool().num_adopted() == 4);
  CHECK(next.manager.pool().num_dropped() == 0);
  CHECK(next.find(text) == 8);
  CHECK(next.manager.pool().num_dropped() == 1);
  next.manager.check_integrity({});
  // The life after that does not meet it again.
  KeptLife third(kept);
  CHECK(third.find(text) == 8);
  CHECK(third.manager.pool().num_dropped() == 0);
}

TEST_CASE("kept blocks: blocks whose beginning was reused are not taken over") {
  const KeptBlocks kept(5);
  {
    KeptLife life(kept);
    Sequence first = text_of(1, 16);
    life.fill(first);
    std::swap(first.block_tables[0].front(),
              first.block_tables[0].back());  // so that the first block is freed first
    life.manager.deallocate(first);
    Sequence other = text_of(90, 8);
    life.fill(other);
  }
  KeptLife next(kept);
  CHECK(next.manager.pool().num_adopted() == 2);
  CHECK(next.manager.pool().num_dropped() == 0);
  CHECK(find_next(kept, text_of(1, 16)) == 0);
  CHECK(find_next(kept, text_of(90, 9)) == 8);
}

TEST_CASE("kept blocks: with a window, blocks that nobody sees any more are found while they are intact") {
  constexpr uint32_t kWindow = 6;
  const KeptBlocks kept(8);
  {
    KeptLife life(kept, {kWindow});
    Sequence text = text_of(1, 22);
    life.fill(text);
    CHECK(text.block_tables[0].front() == kNoBlock);
  }
  KeptLife next(kept, {kWindow});
  CHECK(next.find(text_of(1, 22)) == 20);
}

TEST_CASE("kept blocks: of ten thousand flipped bits none is believed") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const KeptBlocks kept = cache_of_tenants();
  const std::vector<Sequence> texts = texts_of_tenants();
  uint64_t num_whole = 0;
  for (const Sequence& text : texts) num_whole += find_next(kept, text);
  uint64_t num_dropped = 0;
  for (uint32_t i = 0; i < 10'000; ++i) {
    const KeptBlocks copy = kept;
    copy.bytes()[random() % copy.bytes().size()] ^= static_cast<std::byte>(1u << random() % 8);
    KeptLife next(copy);
    uint64_t num_found = 0;
    for (const Sequence& text : texts) num_found += next.find(text);  // checks what it finds
    // A text that has lost a block is found in part.
    CHECK((num_found == num_whole || next.manager.pool().num_dropped() > 0));
    num_dropped += next.manager.pool().num_dropped();
    next.manager.check_integrity({});
  }
  CHECK(num_dropped > 1000);
}

TEST_CASE("kept blocks: mutated indexes crash no runner, and give no tenant another one's blocks") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  fuzz::Random random(seed);
  const KeptBlocks cache = cache_of_tenants();
  const std::string whole(reinterpret_cast<const char*>(cache.index().data()), cache.index().size());
  MutatedOutcome all{};
  constexpr uint32_t kNumIndexes = 10'000;
  for (uint32_t i = 0; i < kNumIndexes; ++i) {
    std::string index = whole;
    mutate_index(index, cache.shape.num_blocks, random);
    const MutatedOutcome outcome = outcome_of(index, cache);
    all.num_adopted += outcome.num_adopted;
    all.num_dropped += outcome.num_dropped;
    all.num_found += outcome.num_found;
  }
  // Many mutations are survived by most entries.
  CHECK(all.num_adopted > 5 * kNumIndexes);
  CHECK(all.num_dropped > kNumIndexes / 2);
  CHECK(all.num_found > 20 * kNumIndexes);
}

TEST_CASE("kept blocks: a cache of seals that a test made again is the cache that was") {
  const KeptBlocks cache = cache_of_tenants();
  std::string index(reinterpret_cast<const char*>(cache.index().data()), cache.index().size());
  const MutatedOutcome before = outcome_of(index, cache);
  seal_again(index, cache.shape.num_blocks);
  CHECK(outcome_of(index, cache).num_adopted == before.num_adopted);
  CHECK(outcome_of(index, cache).num_dropped == 0);
  CHECK(before.num_adopted > 10);
}

}  // namespace runnel
