#include "runner/engine/block_manager.h"

#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// Allocates the blocks of a sequence and marks all its tokens as computed.
void fill(BlockManager& blocks, Sequence& sequence) {
  const std::optional<uint32_t> num_cached = blocks.can_allocate(sequence);
  REQUIRE(num_cached);
  blocks.allocate(sequence, *num_cached);
  sequence.num_scheduled_tokens = sequence.num_tokens() - sequence.num_cached_tokens;
  blocks.advance(sequence);
  sequence.num_scheduled_tokens = 0;
}

Sequence salted(uint32_t request_id, std::vector<uint32_t> prompt, const std::string& salt) {
  Sequence sequence = sequence_of(request_id, std::move(prompt));
  sequence.cache_salt = salt;
  return sequence;
}

}  // namespace

TEST_CASE("blocks: the hash is XXH64 over the previous hash and 64-bit ids") {
  // The hashes are from an independent implementation of XXH64 in Python.
  CHECK(hash_block({}, count_from(1, 16)) == 0xaa1de55d35b6c253);
  CHECK(hash_block(0xaa1de55d35b6c253, count_from(17, 16)) == 0xf2a9511b9a2efb32);
  CHECK(hash_block({}, std::vector<uint32_t>{0, 49151, 16777215}) == 0xa8a25a362f635242);
}

TEST_CASE("blocks: a sequence shares the full blocks it has in common with another, the last one excepted") {
  BlockManager blocks(16, 4);
  Sequence first = sequence_of(1, count_from(10, 12));
  fill(blocks, first);
  CHECK(first.block_tables[0] == std::vector<uint32_t>{0, 1, 2});

  Sequence same = sequence_of(2, count_from(10, 12));
  CHECK(blocks.can_allocate(same) == 2);
  fill(blocks, same);
  CHECK(same.block_tables[0] == std::vector<uint32_t>{0, 1, 3});

  Sequence longer = sequence_of(3, count_from(10, 13));
  CHECK(blocks.can_allocate(longer) == 3);

  std::vector<uint32_t> forked = count_from(10, 12);
  forked[5] = 999;
  CHECK(blocks.can_allocate(sequence_of(4, forked)) == 1);
  // The same ids after a different first block are different content.
  forked = count_from(10, 12);
  forked[0] = 999;
  CHECK(blocks.can_allocate(sequence_of(5, forked)) == 0);
  blocks.check_integrity(std::vector<const Sequence*>{&first, &same});
}

TEST_CASE("blocks: a sequence that needs every row finds nothing to share, but leaves something") {
  BlockManager blocks(16, 4);
  Sequence scored = sequence_of(1, count_from(10, 12));
  scored.prompt_logprobs = 0;
  fill(blocks, scored);
  Sequence again = scored;
  again.block_tables.clear();
  CHECK(blocks.can_allocate(again) == 0);
  CHECK(blocks.can_allocate(sequence_of(2, count_from(10, 12))) == 2);
}

TEST_CASE("blocks: freed blocks are reused first in, first out, and revived while intact") {
  BlockManager blocks(4, 4);
  Sequence first = sequence_of(1, count_from(10, 8));
  fill(blocks, first);
  blocks.deallocate(first);
  CHECK_FALSE(first.holds_blocks());
  CHECK(first.num_cached_tokens == 0);
  CHECK(blocks.pool().num_free() == 4);

  // The free blocks are now 2, 3, 1 and 0, in this order, because a sequence frees its blocks from the end.
  Sequence other = sequence_of(2, count_from(90, 9));
  fill(blocks, other);
  CHECK(other.block_tables[0] == std::vector<uint32_t>{2, 3, 1});

  Sequence again = sequence_of(3, count_from(10, 5));
  CHECK(blocks.pool().num_free() == 1);
  CHECK_FALSE(blocks.can_allocate(again));  // block 0 is cached but free, and is the only free one
  blocks.deallocate(other);
  CHECK(blocks.can_allocate(again) == 1);
  fill(blocks, again);
  CHECK(again.block_tables[0] == std::vector<uint32_t>{0, 1});
  blocks.check_integrity(std::vector<const Sequence*>{&again});
}

TEST_CASE("blocks: a new block is taken when the last one is full, and only then") {
  BlockManager blocks(3, 4);
  Sequence sequence = sequence_of(1, count_from(1, 8));
  fill(blocks, sequence);
  for (uint32_t token = 9; token <= 12; ++token) {
    sequence.token_ids.push_back(token);
    CHECK(blocks.can_append(sequence));
    blocks.may_append(sequence);
    CHECK(sequence.block_tables[0].size() == 3);
  }
  sequence.token_ids.push_back(13);
  CHECK_FALSE(blocks.can_append(sequence));
}

TEST_CASE("blocks: equal ids under different salts are never shared, under the same salt they are") {
  BlockManager blocks(32, 4);
  Sequence plain = sequence_of(1, count_from(10, 12));
  Sequence first = salted(2, count_from(10, 12), "a");
  Sequence second = salted(3, count_from(10, 12), "b");
  for (Sequence* sequence : {&plain, &first, &second}) {
    CHECK(blocks.can_allocate(*sequence) == 0);
    fill(blocks, *sequence);
  }
  for (const char* salt : {"", "a", "b"})
    CHECK(blocks.can_allocate(salted(4, count_from(10, 12), salt)) == 2);
  CHECK(blocks.can_allocate(salted(4, count_from(10, 12), "c")) == 0);
  blocks.check_integrity(std::vector<const Sequence*>{&plain, &first, &second});
}

TEST_CASE("blocks: hashes that collide never make one content pass for another") {
  // A weak hash stands for prompts with equal hashes: it ignores the ids of earlier blocks and the salt.
  const auto weak = [](std::optional<uint64_t>, std::span<const uint32_t> ids) { return uint64_t{ids[0]}; };
  BlockManager blocks(32, 4, {0}, weak);
  Sequence first = sequence_of(1, {1, 1, 1, 1, 5, 5, 5, 5, 9});
  fill(blocks, first);
  CHECK(blocks.can_allocate(sequence_of(2, {1, 1, 1, 1, 5, 5, 5, 5, 9})) == 2);
  // A different first block with the same hash replaces the entry of the first one.
  Sequence forged = sequence_of(3, {1, 2, 2, 2, 6, 6, 6, 6, 9});
  CHECK(blocks.can_allocate(forged) == 0);
  fill(blocks, forged);
  CHECK(blocks.can_allocate(sequence_of(4, {1, 2, 2, 2, 6, 6, 6, 6, 9})) == 2);
  // The second block has the ids and hash of a cached block, but the block before it is different.
  CHECK(blocks.can_allocate(sequence_of(5, {1, 2, 2, 2, 5, 5, 5, 5, 9})) == 1);
  CHECK(blocks.can_allocate(sequence_of(6, {1, 1, 1, 1, 5, 5, 5, 5, 9})) == 0);
  CHECK(blocks.can_allocate(salted(7, {1, 2, 2, 2, 6, 6, 6, 6, 9}, "salt")) == 0);
  blocks.check_integrity(std::vector<const Sequence*>{&first, &forged});
}

TEST_CASE("blocks: content that was computed twice is one content, and what follows either copy is found") {
  BlockManager blocks(32, 4);
  Sequence first = sequence_of(1, count_from(10, 8));
  Sequence second = sequence_of(2, count_from(10, 8));
  // Both are admitted before one of them is computed.
  for (Sequence* sequence : {&first, &second}) {
    blocks.allocate(*sequence, *blocks.can_allocate(*sequence));
    sequence->num_scheduled_tokens = 8;
  }
  blocks.advance(first);
  blocks.advance(second);
  CHECK(blocks.can_allocate(sequence_of(3, count_from(10, 9))) == 2);
  // The first sequence goes on after its own copy of the block.
  for (uint32_t id = 18; id < 22; ++id) first.token_ids.push_back(id);
  blocks.may_append(first);
  first.num_scheduled_tokens = 4;
  blocks.advance(first);
  CHECK(blocks.can_allocate(sequence_of(4, count_from(10, 13))) == 3);
  blocks.check_integrity(std::vector<const Sequence*>{&first, &second});
}

TEST_CASE("blocks: free ones whose content can still be found are counted") {
  BlockManager blocks(4, 4);
  Sequence first = sequence_of(1, count_from(10, 9));
  fill(blocks, first);
  CHECK(blocks.pool().num_reusable() == 0);
  blocks.deallocate(first);
  CHECK(blocks.pool().num_free() == 4);
  CHECK(blocks.pool().num_reusable() == 2);
  Sequence other = sequence_of(2, count_from(90, 9));
  fill(blocks, other);
  CHECK(blocks.pool().num_reusable() == 1);
  blocks.check_integrity(std::vector<const Sequence*>{&other});
}

TEST_CASE("blocks: a block is freed exactly when no later row sees its positions") {
  constexpr uint32_t kWindow = 6;
  BlockManager blocks(8, 4, {kWindow});
  Sequence sequence = sequence_of(1, count_from(10, 1));
  fill(blocks, sequence);
  for (uint32_t num_tokens = 2; num_tokens <= 24; ++num_tokens) {
    sequence.token_ids.push_back(num_tokens);
    CHECK(blocks.can_append(sequence));
    blocks.may_append(sequence);
    sequence.num_scheduled_tokens = 1;
    blocks.advance(sequence);
    // The next row has position num_tokens and sees kWindow positions, of which its own is the last.
    const uint32_t first_seen = num_tokens + 1 < kWindow ? 0 : num_tokens + 1 - kWindow;
    for (uint32_t i = 0; i < sequence.block_tables[0].size(); ++i)
      CHECK((sequence.block_tables[0][i] == kNoBlock) == (i * 4 + 3 < first_seen));
    blocks.check_integrity(std::vector<const Sequence*>{&sequence});
  }
  CHECK(blocks.pool().num_free() == 6);
  blocks.deallocate(sequence);
  CHECK(blocks.pool().num_free() == 8);
}

TEST_CASE("blocks: a prefix with a window is found while complete; only visible blocks are held") {
  BlockManager blocks(8, 4, {6});
  Sequence first = sequence_of(1, count_from(10, 17));
  fill(blocks, first);
  CHECK(first.block_tables[0].size() == 5);
  CHECK(blocks.pool().num_free() == 6);  // 17 tokens are cached; the next row sees positions from 12 on
  Sequence same = sequence_of(2, count_from(10, 17));
  CHECK(blocks.can_allocate(same) == 4);
  fill(blocks, same);
  CHECK(same.block_tables[0][2] == kNoBlock);
  CHECK(same.block_tables[0][3] == first.block_tables[0][3]);
  blocks.check_integrity(std::vector<const Sequence*>{&first, &same});
  // The content of the first block is overwritten, so the chain of blocks has no beginning any more.
  Sequence other = sequence_of(3, count_from(90, 20));
  CHECK(blocks.can_allocate(other) == 0);
  fill(blocks, other);
  CHECK_FALSE(blocks.can_allocate(sequence_of(4, count_from(10, 17))) == 4);
}

}  // namespace runnel
