// A runner goes on with sequences of other runners, whose caches it reads.
#include "runner/engine/kv_sources.h"

#include <fcntl.h>

#include <atomic>
#include <random>
#include <thread>

#include "test/fixtures/kv_files.h"
#include "test/fixtures/kv_mutations.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kDescriptor = 5;

KvSources sources_with(const MemoryFile& file) {
  KvSources sources;
  sources.add(kDescriptor, passed(file));
  return sources;
}

// The text as it comes from another runner.
Sequence coming(Sequence text, std::vector<uint32_t> from = {kDescriptor}) {
  text.kv_from = std::move(from);
  return text;
}

// Takes the text over. Returns how many tokens need not be computed. CHECKs that their rows are right.
uint32_t take_over(KeptLife& life, Sequence& text) {
  if (!life.start(text)) return 0;
  const uint32_t num_before = text.num_cached_tokens;
  KvLook look = life.manager.look();
  const uint32_t num_copied = life.manager.copy_from_sources(text, look);
  RUNNEL_CHECK(text.num_cached_tokens == num_before + num_copied * kKeptBlockSize);
  RUNNEL_CHECK(life.kept.has_cached_rows(text));
  life.manager.check_integrity(std::vector<const Sequence*>{&text});
  return text.num_cached_tokens;
}

// What a fresh runner takes over of the text.
uint32_t taken_over(const KvSources& sources, Sequence text, const std::vector<uint32_t>& windows = {0}) {
  const KeptBlocks own(40);
  KeptLife life(own, windows, &sources);
  return take_over(life, text);
}

// A cache that has computed the text, by a runner that held it when it died.
KeptBlocks cache_with(Sequence text, uint32_t num_blocks = 16) {
  const KeptBlocks kept(num_blocks);
  KeptLife(kept).fill(text);
  return kept;
}

}  // namespace

TEST_CASE("kv sources: of a text that comes from there, all but the last block is copied and goes on") {
  const MemoryFile file = file_with(cache_with(text_of(1, 18)));
  const KvSources sources = sources_with(file);
  const KeptBlocks own(10);
  {
    KeptLife life(own, {0}, &sources);
    Sequence text = coming(text_of(1, 21));
    CHECK(take_over(life, text) == 16);
    CHECK(life.manager.pool().num_adopted() == 4);
    while (text.num_cached_tokens < text.num_tokens()) life.compute(text, 2);
    CHECK(own.has_cached_rows(text));
    // It is now like any other: found by the next request, and by the next runner in the place.
    CHECK(life.find(text_of(1, 21)) == 20);
  }
  CHECK(KeptLife(own).find(text_of(1, 21)) == 20);
}

TEST_CASE(
    "kv sources: nothing is copied for a text that does not come from there, or of which nothing is left") {
  const MemoryFile file = file_with(cache_with(text_of(1, 18)));
  const KvSources sources = sources_with(file);
  CHECK(taken_over(sources, text_of(1, 18)) == 0);
  CHECK(taken_over(sources, coming(text_of(1, 18), {4, 6})) == 0);
  CHECK(taken_over(sources, coming(text_of(2, 18))) == 0);
  CHECK(taken_over(sources, coming(text_of(1, 18), {4, kDescriptor})) == 16);
  Sequence scored = coming(text_of(1, 18));
  scored.prompt_logprobs = 1;
  CHECK(taken_over(sources, scored) == 0);
}

TEST_CASE("kv sources: sequences that come together share a look at a cache") {
  const KeptBlocks cache(16);
  {
    KeptLife life(cache);
    for (const uint32_t first : {1u, 50u}) {
      Sequence text = text_of(first, 9);
      life.fill(text);
    }
  }
  const MemoryFile file = file_with(cache);
  KvSources sources = sources_with(file);
  const KeptBlocks own(16);
  KeptLife life(own, {0}, &sources);
  KvLook look = life.manager.look();
  const auto num_copied = [&](uint32_t first) {
    Sequence text = coming(text_of(first, 9));
    REQUIRE(life.start(text));
    const uint32_t num_blocks = life.manager.copy_from_sources(text, look);
    RUNNEL_CHECK(own.has_cached_rows(text));
    life.manager.deallocate(text);
    return num_blocks;
  };
  CHECK(num_copied(1) == 2);
  sources.release(kDescriptor);
  CHECK(num_copied(50) == 2);
  look = life.manager.look();
  CHECK(look.at(kDescriptor) == nullptr);
}

TEST_CASE("kv sources: a text of another salt is not found") {
  const MemoryFile file = file_with(cache_of_tenants());
  const KvSources sources = sources_with(file);
  for (const Sequence& text : texts_of_tenants()) {
    CHECK(taken_over(sources, coming(text)) > 0);
    for (const char* salt : {"", "a", "b", "c"}) {
      Sequence other = coming(text);
      other.cache_salt = salt;
      CHECK((taken_over(sources, other) > 0) == (std::string(salt) != "c"));
    }
  }
  const MemoryFile of_one = file_with(cache_with(text_of(1, 18, "a")));
  const KvSources only = sources_with(of_one);
  CHECK(taken_over(only, coming(text_of(1, 18, "a"))) == 16);
  CHECK(taken_over(only, coming(text_of(1, 18, "b"))) == 0);
  CHECK(taken_over(only, coming(text_of(1, 18))) == 0);
}

TEST_CASE("kv sources: texts whose hashes collide are told apart by salt and by what comes before them") {
  const BlockPool::Hash of_ids_alone = [](std::optional<uint64_t>, std::span<const uint32_t> token_ids) {
    return hash_block(std::nullopt, token_ids);
  };
  const KeptBlocks cache(16);
  {
    KeptLife life(cache, {0}, nullptr, of_ids_alone);
    for (const uint32_t first : {1u, 50u}) {
      Sequence text = text_of(first, 9, "a");
      life.fill(text);
      life.manager.deallocate(text);
    }
  }
  const MemoryFile file = file_with(cache);
  const KvSources sources = sources_with(file);
  const auto num_taken = [&](Sequence text) {
    const KeptBlocks own(16);
    KeptLife life(own, {0}, &sources, of_ids_alone);
    return take_over(life, text);
  };
  CHECK(num_taken(coming(text_of(1, 9, "a"))) == 8);
  CHECK(num_taken(coming(text_of(1, 9, "b"))) == 0);
  CHECK(num_taken(coming(text_of(1, 9))) == 0);
  // The first block of one text, and the second of the other.
  Sequence mixed = coming(text_of(50, 9, "a"));
  std::ranges::copy(count_from(5, 4), mixed.token_ids.begin() + 4);
  CHECK(num_taken(mixed) == 4);
}

TEST_CASE("kv sources: what is here already is not copied, and what follows it is") {
  const MemoryFile file = file_with(cache_with(text_of(1, 30), 20));
  const KvSources sources = sources_with(file);
  const KeptBlocks own(20);
  KeptLife life(own, {0}, &sources);
  Sequence here = text_of(1, 10);
  life.fill(here);
  life.manager.deallocate(here);
  Sequence text = coming(text_of(1, 30));
  CHECK(take_over(life, text) == 28);
  CHECK(life.manager.pool().num_adopted() == 5);
}

TEST_CASE("kv sources: each cache continues what those before it had") {
  const MemoryFile shorter = file_with(cache_with(text_of(1, 10)));
  const MemoryFile longer = file_with(cache_with(text_of(1, 21)));
  KvSources sources = sources_with(shorter);
  sources.add(7, passed(longer));
  CHECK(taken_over(sources, coming(text_of(1, 30), {kDescriptor})) == 8);
  CHECK(taken_over(sources, coming(text_of(1, 30), {kDescriptor, 7})) == 20);
  CHECK(taken_over(sources, coming(text_of(1, 30), {7, kDescriptor})) == 20);
}

TEST_CASE("kv sources: of a cache of another model or another size of blocks nothing is taken") {
  const KeptBlocks other(16, "another model");
  {
    KeptLife life(other);
    Sequence text = text_of(1, 18);
    life.fill(text);
  }
  const MemoryFile file = file_with(other);
  CHECK(taken_over(sources_with(file), coming(text_of(1, 18))) == 0);
  const MemoryFile empty = sized_memory(uint64_t{4} << 20);
  CHECK(taken_over(sources_with(empty), coming(text_of(1, 18))) == 0);
  const MemoryFile small = sized_memory(64);
  CHECK(taken_over(sources_with(small), coming(text_of(1, 18))) == 0);
}

TEST_CASE("kv sources: memory that is released is closed, and its blocks are not found any more") {
  const MemoryFile file = file_with(cache_with(text_of(1, 18)));
  const int descriptor = dup(file.descriptor());
  KvSources sources;
  sources.add(kDescriptor, *MemoryFile::inherit(descriptor, "--kv-from", Seals::kSize));
  CHECK(taken_over(sources, coming(text_of(1, 18))) == 16);
  sources.release(99);
  CHECK(taken_over(sources, coming(text_of(1, 18))) == 16);
  sources.release(kDescriptor);
  CHECK(taken_over(sources, coming(text_of(1, 18))) == 0);
  CHECK(fcntl(descriptor, F_GETFD) == -1);
}

TEST_CASE("kv sources: a place's new memory is another file, and who has the old one reads the old one") {
  const MemoryFile before = file_with(cache_with(text_of(1, 18)));
  const KvSources sources = sources_with(before);
  const MemoryFile after = file_with(cache_with(text_of(60, 18)));
  CHECK(taken_over(sources, coming(text_of(60, 18))) == 0);
  CHECK(taken_over(sources, coming(text_of(1, 18))) == 16);
  CHECK(taken_over(sources_with(after), coming(text_of(60, 18))) == 16);
}

TEST_CASE("kv sources: a damaged block is not used, counted once, and what follows it is computed") {
  const KeptBlocks cache = cache_with(text_of(1, 18));
  // The blocks of a fresh manager are taken in order.
  cache.blocks()[2 * cache.shape.block_bytes + 5] ^= std::byte{16};
  const MemoryFile file = file_with(cache);
  const KvSources sources = sources_with(file);
  const KeptBlocks own;
  KeptLife life(own, {0}, &sources);
  Sequence text = coming(text_of(1, 18));
  CHECK(take_over(life, text) == 8);
  CHECK(life.manager.pool().num_adopted() == 2);
  CHECK(life.manager.pool().num_dropped() == 1);
  while (text.num_cached_tokens < text.num_tokens()) life.compute(text, 3);
  CHECK(own.has_cached_rows(text));
}

TEST_CASE(
    "kv sources: with a window, a text whose beginning is there is copied, and blocks that leave the window "
    "are given back") {
  constexpr uint32_t kWindow = 6;
  const KeptBlocks cache(20);
  {
    KeptLife life(cache, {kWindow});
    Sequence text = text_of(1, 50);
    life.fill(text);
  }
  const MemoryFile file = file_with(cache);
  const KvSources sources = sources_with(file);
  const KeptBlocks own(6);
  KeptLife life(own, {kWindow}, &sources);
  Sequence text = coming(text_of(1, 50));
  CHECK(take_over(life, text) == 48);
  CHECK(text.block_tables[0].front() == kNoBlock);
}

TEST_CASE("kv sources: of a thousand flipped bits none is believed") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const KeptBlocks cache = cache_of_tenants();
  const std::vector<Sequence> texts = texts_of_tenants();
  const MemoryFile file = file_with(cache);
  const KvSources sources = sources_with(file);
  const auto num_found = [&] {
    uint32_t num_taken = 0;
    for (const Sequence& text : texts)
      num_taken += taken_over(sources, coming(text));  // checks what it finds
    return num_taken;
  };
  const uint32_t num_whole = num_found();
  uint32_t num_hurt = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    uint64_t at = random() % cache.bytes().size();
    const std::byte byte = cache.bytes()[at];
    const uint64_t index_bytes = cache.index().size();
    if (at >= index_bytes) at += KvMapping::blocks_offset(cache.shape) - index_bytes;
    const std::byte flipped = byte ^ static_cast<std::byte>(1u << random() % 8);
    store(file, {&flipped, 1}, at);
    if (num_found() < num_whole) ++num_hurt;
    store(file, {&byte, 1}, at);
  }
  CHECK(num_hurt > 100);
  CHECK(num_found() == num_whole);
}

TEST_CASE("kv sources: of a neighbour that computes meanwhile, a block is copied whole or not at all") {
  const MemoryFile file = sized_memory(uint64_t{4} << 20);
  const KvIndexShape shape{
      .contents = "a model", .block_size = kKeptBlockSize, .block_bytes = 1 << 16, .num_blocks = 4};
  const auto neighbour = *KvMapping::open(file, shape);
  constexpr uint32_t kNumTexts = 3;
  const auto content_of = [](uint32_t text) {
    return KvContent{.hash = text + 1, .content = text + 1, .token_ids = std::vector<uint32_t>(4, text)};
  };
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (uint32_t i = 0; !is_over; ++i) {
      const uint32_t id = i % shape.num_blocks;
      neighbour->index().invalidate(id);
      std::ranges::fill(neighbour->index().writable_block(id), static_cast<std::byte>(i % kNumTexts + 1));
      neighbour->index().publish(id, content_of(i % kNumTexts));
    }
  });
  uint32_t num_intact = 0;
  std::vector<std::byte> copy(shape.block_bytes);
  for (uint32_t i = 0; num_intact < 3000; ++i) {
    const uint32_t text = i % kNumTexts;
    const auto source = KvSource::look_into(file, shape);
    REQUIRE(source);
    const auto found = source->find(text + 1, 0, "", content_of(text).token_ids);
    if (!found) continue;
    if (source->copy(*found, copy) != KvSource::Copy::kIntact) continue;
    ++num_intact;
    const auto is_right = [&](std::byte byte) { return byte == static_cast<std::byte>(text + 1); };
    REQUIRE(std::ranges::all_of(copy, is_right));
  }
  is_over = true;
  writer.join();
}

TEST_CASE("kv sources: mutated indexes crash no runner, and give no tenant another one's blocks") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  fuzz::Random random(seed);
  const KeptBlocks cache = cache_of_tenants();
  const std::string whole(reinterpret_cast<const char*>(cache.index().data()), cache.index().size());
  const MemoryFile file = file_with(cache);
  const KvSources sources = sources_with(file);
  uint64_t num_found = 0;
  for (uint32_t i = 0; i < 3000; ++i) {
    std::string index = whole;
    mutate_index(index, cache.shape.num_blocks, random);
    store(file, std::as_bytes(std::span(index)), 0);
    const KeptBlocks own(40);
    KeptLife life(own, {0}, &sources);
    for (Sequence text : texts_of_tenants()) {
      text.kv_from = {kDescriptor};
      if (!life.start(text)) continue;
      KvLook look = life.manager.look();
      life.manager.copy_from_sources(text, look);
      REQUIRE(own.has_rows_of_salt(text));
      num_found += text.num_cached_tokens;
      life.compute(text, text.num_tokens());
      life.manager.deallocate(text);
    }
    life.manager.check_integrity({});
  }
  CHECK(num_found > 20 * 3000);
}

}  // namespace runnel
