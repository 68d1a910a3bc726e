#include "runner/block_manager.h"

#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// Allocates and marks everything as computed.
void fill(BlockManager& blocks, Sequence& sequence) {
  const std::optional<uint32_t> num_cached = blocks.can_allocate(sequence);
  REQUIRE(num_cached);
  blocks.allocate(sequence, *num_cached);
  sequence.num_scheduled_tokens = sequence.num_tokens() - sequence.num_cached_tokens;
  blocks.remember(sequence);
  sequence.num_cached_tokens = sequence.num_tokens();
  sequence.num_scheduled_tokens = 0;
}

}  // namespace

TEST_CASE("blocks: the hash is XXH64 over the previous hash and 64-bit ids") {
  // Vectors from an implementation of XXH64 of its own, in Python.
  CHECK(hash_block({}, count_from(1, 16)) == 0xaa1de55d35b6c253);
  CHECK(hash_block(0xaa1de55d35b6c253, count_from(17, 16)) == 0xf2a9511b9a2efb32);
  CHECK(hash_block({}, std::vector<uint32_t>{0, 49151, 16777215}) == 0xa8a25a362f635242);
}

TEST_CASE("blocks: a sequence shares the full blocks it has in common with another, the last one excepted") {
  BlockManager blocks(16, 4);
  Sequence first = sequence_of(1, count_from(10, 12));
  fill(blocks, first);
  CHECK(first.block_table == std::vector<uint32_t>{0, 1, 2});

  Sequence same = sequence_of(2, count_from(10, 12));
  CHECK(blocks.can_allocate(same) == 2);
  fill(blocks, same);
  CHECK(same.block_table == std::vector<uint32_t>{0, 1, 3});

  Sequence longer = sequence_of(3, count_from(10, 13));
  CHECK(blocks.can_allocate(longer) == 3);

  std::vector<uint32_t> forked = count_from(10, 12);
  forked[5] = 999;
  CHECK(blocks.can_allocate(sequence_of(4, forked)) == 1);
  // The same ids after another first block are other content.
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
  again.block_table.clear();
  CHECK(blocks.can_allocate(again) == 0);
  CHECK(blocks.can_allocate(sequence_of(2, count_from(10, 12))) == 2);
}

TEST_CASE("blocks: what was freed is reused first in, first out, and revived while its content is there") {
  BlockManager blocks(4, 4);
  Sequence first = sequence_of(1, count_from(10, 8));
  fill(blocks, first);
  blocks.deallocate(first);
  CHECK(first.block_table.empty());
  CHECK(first.num_cached_tokens == 0);
  CHECK(blocks.num_free_blocks() == 4);

  // Free now: 2, 3, then 1 and 0, for a sequence frees from its end.
  Sequence other = sequence_of(2, count_from(90, 9));
  fill(blocks, other);
  CHECK(other.block_table == std::vector<uint32_t>{2, 3, 1});

  Sequence again = sequence_of(3, count_from(10, 5));
  CHECK(blocks.num_free_blocks() == 1);
  CHECK_FALSE(blocks.can_allocate(again));  // reviving block 0 takes the only free one
  blocks.deallocate(other);
  CHECK(blocks.can_allocate(again) == 1);
  fill(blocks, again);
  CHECK(again.block_table == std::vector<uint32_t>{0, 1});
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
    CHECK(sequence.block_table.size() == 3);
  }
  sequence.token_ids.push_back(13);
  CHECK_FALSE(blocks.can_append(sequence));
}

}  // namespace runnel
