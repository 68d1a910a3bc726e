#include "runner/engine/scheduler.h"

#include <deque>
#include <vector>

#include "test/fixtures/scheduling.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {

TEST_CASE("scheduler: without mixed batches only the first sequence of a step is cut into chunks") {
  Scheduler scheduler({.max_num_batched_tokens = 10,
                       .max_num_seqs = 4,
                       .block_size = 4,
                       .num_blocks = 32,
                       .mixed_batches = false});
  Sequence small = sequence_of(1, count_from(1, 6));
  Sequence large = sequence_of(2, count_from(50, 25));
  scheduler.add(small);
  scheduler.add(large);

  Plan plan = scheduler.schedule();
  CHECK(request_ids(plan.sequences) == std::vector<uint32_t>{1});
  compute(scheduler, plan);
  for (const uint32_t num_rows : {10, 10, 5}) {
    plan = scheduler.schedule();
    CHECK(plan.is_prefill);
    CHECK(request_ids(plan.sequences) == std::vector<uint32_t>{2});
    CHECK(large.num_scheduled_tokens == num_rows);
    CHECK(large.num_generated() == 0);
    compute(scheduler, plan);
  }
  CHECK(large.num_generated() == 1);
  CHECK_FALSE(scheduler.schedule().is_prefill);
}

TEST_CASE("scheduler: the running sequence that came last makes room, and comes back with its tokens") {
  Scheduler scheduler({.max_num_batched_tokens = 64, .max_num_seqs = 4, .block_size = 4, .num_blocks = 4});
  Sequence first = sequence_of(1, count_from(1, 7), 9);
  Sequence second = sequence_of(2, count_from(50, 7), 9);
  scheduler.add(first);
  scheduler.add(second);
  step(scheduler);  // both have 8 tokens now, and all 4 blocks
  step(scheduler);
  const Plan plan = scheduler.schedule();
  CHECK(request_ids(plan.preempted) == std::vector<uint32_t>{2});
  CHECK(request_ids(plan.sequences) == std::vector<uint32_t>{1});
  CHECK(second.num_tokens() == 9);
  CHECK_FALSE(second.holds_blocks());
  compute(scheduler, plan);
  while (scheduler.has_work()) step(scheduler);
  CHECK(first.num_generated() == 9);
  CHECK(second.num_generated() == 9);
}

TEST_CASE("scheduler: a paused sequence keeps its blocks, and loses them before a running one loses any") {
  Scheduler scheduler({.max_num_batched_tokens = 64, .max_num_seqs = 4, .block_size = 4, .num_blocks = 4});
  Sequence first = sequence_of(1, count_from(1, 7), 9);
  Sequence second = sequence_of(2, count_from(50, 7), 9);
  scheduler.add(first);
  scheduler.add(second);
  step(scheduler);
  scheduler.pause(first);
  scheduler.pause(first);
  CHECK(first.block_tables[0].size() == 2);
  CHECK(request_ids(scheduler.schedule().sequences) == std::vector<uint32_t>{2});
  scheduler.resume(first);
  scheduler.resume(first);
  scheduler.check_integrity();
  Plan plan = scheduler.schedule();
  CHECK_FALSE(plan.is_prefill);  // nothing was lost
  CHECK(request_ids(plan.sequences) == std::vector<uint32_t>{2, 1});
  compute(scheduler, plan);

  scheduler.pause(first);
  plan = scheduler.schedule();
  CHECK(plan.preempted.empty());
  CHECK_FALSE(first.holds_blocks());
  compute(scheduler, plan);
  scheduler.resume(first);
  while (scheduler.has_work()) step(scheduler);
  CHECK(first.num_generated() == 9);
  CHECK(second.num_generated() == 9);
  CHECK(scheduler.blocks().pool().num_free() == 4);
}

TEST_CASE("scheduler: a prompt paused between chunks and later prompts do not block each other") {
  Scheduler scheduler({.max_num_batched_tokens = 8, .max_num_seqs = 4, .block_size = 4, .num_blocks = 8});
  Sequence large = sequence_of(1, count_from(1, 28), 2);
  Sequence other = sequence_of(2, count_from(50, 24), 2);
  Sequence third = sequence_of(3, count_from(80, 24), 2);
  scheduler.add(large);
  scheduler.add(other);
  scheduler.add(third);
  step(scheduler);
  scheduler.pause(large);
  step(scheduler);  // takes the blocks of the paused sequence
  CHECK_FALSE(large.holds_blocks());
  scheduler.pause(other);
  scheduler.resume(large);
  scheduler.resume(other);
  scheduler.check_integrity();
  while (scheduler.has_work()) {
    step(scheduler);
    scheduler.check_integrity();
  }
  for (const Sequence* sequence : {&large, &other, &third}) CHECK(sequence->num_generated() == 2);
}

TEST_CASE(
    "scheduler: next tokens come first in a mixed step, then few rows of prompts, in order of arrival") {
  Scheduler scheduler({.max_num_batched_tokens = 20,
                       .max_num_seqs = 4,
                       .block_size = 4,
                       .num_blocks = 64,
                       .mixed_prefill_tokens = 5});
  std::vector<Sequence> running = {sequence_of(1, count_from(1, 5)), sequence_of(2, count_from(20, 5))};
  for (Sequence& sequence : running) scheduler.add(sequence);
  CHECK(scheduler.schedule().is_prefill);
  for (Sequence& sequence : running) {
    scheduler.advance(sequence);
    sequence.token_ids.push_back(90);
  }
  Sequence large = sequence_of(3, count_from(40, 10));
  Sequence small = sequence_of(4, count_from(60, 5));
  Sequence late = sequence_of(5, count_from(80, 5));
  for (Sequence* sequence : {&large, &small, &late}) scheduler.add(*sequence);

  const auto expect = [&](std::vector<uint32_t> ids, std::vector<uint32_t> num_rows, uint32_t num_decoding) {
    const Plan plan = scheduler.schedule();
    scheduler.check_integrity();
    CHECK(request_ids(plan.sequences) == ids);
    for (size_t i = 0; i < ids.size(); ++i) CHECK(plan.sequences[i]->num_scheduled_tokens == num_rows[i]);
    CHECK(plan.num_decoding == num_decoding);
    CHECK_FALSE(plan.is_prefill);
    compute(scheduler, plan);
  };
  // There are places for two more sequences, with three rows each.
  expect({1, 2, 3}, {1, 1, 6}, 2);
  CHECK(large.num_generated() == 0);
  expect({1, 2, 3, 4}, {1, 1, 4, 2}, 2);  // the second prompt is cut too; no other one waits behind it
  CHECK(large.num_generated() == 1);
  expect({1, 2, 3, 4}, {1, 1, 1, 3}, 3);
  CHECK(small.num_generated() == 1);
  expect({1, 2, 3, 4}, {1, 1, 1, 1}, 4);  // a step has at most four sequences
  while (scheduler.has_work()) step(scheduler);
  CHECK(late.num_generated() == late.max_tokens);

  const SchedulerCounts& counts = scheduler.counts();
  CHECK(counts.num_prefill_steps == 1);
  CHECK(counts.num_mixed_steps > 3);
  CHECK(counts.num_decode_steps > 0);
  CHECK(counts.num_prefill_tokens == 30);
  CHECK(counts.num_decode_sequences == 5 * 7);  // the first of 8 tokens comes from the prompt
  CHECK(counts.num_preemptions == 0);
}

TEST_CASE("scheduler: prompts get rows by how many wait for a free place, and by how many are running") {
  // The number of rows that prompts get in a step, beside those of the running sequences.
  const auto num_prompt_rows = [](uint32_t num_running, uint32_t num_waiting,
                                  uint32_t mixed_prefill_tokens = 8,
                                  uint32_t rows_of_weights = kRowsOfWeights) {
    Scheduler scheduler({.max_num_batched_tokens = 256,
                         .max_num_seqs = 64,
                         .block_size = 4,
                         .num_blocks = 4096,
                         .mixed_prefill_tokens = mixed_prefill_tokens,
                         .rows_of_weights = rows_of_weights});
    std::deque<Sequence> sequences;
    for (uint32_t id = 1; id <= num_running; ++id)
      scheduler.add(sequences.emplace_back(sequence_of(id, {id}, 50)));
    step(scheduler);
    for (uint32_t id = 1; id <= num_waiting; ++id)
      scheduler.add(sequences.emplace_back(sequence_of(1000 + id, std::vector<uint32_t>(300, 1000 + id))));
    const Plan plan = scheduler.schedule();
    CHECK(plan.num_decoding == num_running);
    uint32_t num_rows = 0;
    for (const Sequence* sequence : plan.sequences) num_rows += sequence->num_scheduled_tokens;
    return num_rows - plan.num_decoding;
  };
  // One long prompt gets half as many rows as there are next tokens, and four more, since the weights are
  // read anyway.
  CHECK(num_prompt_rows(1, 1) == 4);
  CHECK(num_prompt_rows(2, 1) == 5);
  CHECK(num_prompt_rows(8, 1) == 8);
  CHECK(num_prompt_rows(9, 1) == 8);
  CHECK(num_prompt_rows(32, 1) == 20);
  // Each waiting prompt adds as many rows, as long as it has a place and rows are left.
  CHECK(num_prompt_rows(8, 2) == 16);
  CHECK(num_prompt_rows(28, 4) == 72);
  CHECK(num_prompt_rows(62, 1) == 35);
  CHECK(num_prompt_rows(62, 200) == 2 * 35);
  CHECK(num_prompt_rows(64, 200) == 0);
  CHECK(num_prompt_rows(8, 200) == 248);
  // An operator's setting changes the rows in proportion; there is at least one row.
  CHECK(num_prompt_rows(8, 1, 1) == 1);
  CHECK(num_prompt_rows(1, 1, 1) == 1);
  CHECK(num_prompt_rows(32, 2, 2) == 10);
  CHECK(num_prompt_rows(8, 1, 32) == 32);
  CHECK(num_prompt_rows(16, 1, 32) == 48);
  CHECK(num_prompt_rows(8, 1, 256) == 248);
  // Where reading the weights takes as long as many rows, the number of streams matters little.
  CHECK(num_prompt_rows(1, 1, 72, 64) == 65);
  CHECK(num_prompt_rows(8, 1, 72, 64) == 72);
  CHECK(num_prompt_rows(32, 1, 72, 64) == 96);
}

TEST_CASE("scheduler: rows far down a prompt count as several, by the positions they attend to") {
  const auto rows_of_steps = [](std::vector<uint32_t> windows) {
    Scheduler scheduler({.max_num_batched_tokens = 256,
                         .max_num_seqs = 64,
                         .block_size = 4,
                         .num_blocks = 4096,
                         .mixed_prefill_tokens = 32,
                         .positions_per_row = 100,
                         .windows = std::move(windows)});
    std::deque<Sequence> sequences;
    for (uint32_t id = 1; id <= 8; ++id) scheduler.add(sequences.emplace_back(sequence_of(id, {id}, 50)));
    step(scheduler);
    Sequence& large = sequences.emplace_back(sequence_of(100, std::vector<uint32_t>(200, 100)));
    scheduler.add(large);
    std::vector<uint32_t> num_rows;
    while (large.num_cached_tokens < 200 && num_rows.size() < 50) {
      const Plan plan = scheduler.schedule();
      num_rows.push_back(large.num_scheduled_tokens);
      compute(scheduler, plan);
    }
    return num_rows;
  };
  // 32 * 100 / (100 + 32 + ...)
  CHECK(rows_of_steps({0}) == std::vector<uint32_t>{32, 24, 20, 18, 16, 15, 14, 13, 12, 12, 11, 11, 2});
  // With a window a row sees at most that many positions.
  CHECK(rows_of_steps({60}) == std::vector<uint32_t>{32, 24, 20, 20, 20, 20, 20, 20, 20, 4});
}

TEST_CASE("scheduler: without next tokens a prompt has the whole step") {
  Scheduler scheduler({.max_num_batched_tokens = 20,
                       .max_num_seqs = 4,
                       .block_size = 4,
                       .num_blocks = 64,
                       .mixed_prefill_tokens = 6});
  Sequence large = sequence_of(1, count_from(1, 30));
  scheduler.add(large);
  CHECK(scheduler.schedule().is_prefill);
  CHECK(large.num_scheduled_tokens == 20);
}

TEST_CASE("scheduler: a prompt in chunks gives its blocks to a running sequence, and comes again") {
  Scheduler scheduler({.max_num_batched_tokens = 64,
                       .max_num_seqs = 4,
                       .block_size = 4,
                       .num_blocks = 6,
                       .mixed_prefill_tokens = 4});
  Sequence first = sequence_of(1, count_from(1, 7), 9);
  scheduler.add(first);
  step(scheduler);
  Sequence large = sequence_of(2, count_from(50, 16), 4);
  scheduler.add(large);
  step(scheduler);  // 8 tokens in 2 blocks, and 4 of 16 rows: all blocks are held
  CHECK(scheduler.blocks().pool().num_free() == 0);
  const Plan plan = scheduler.schedule();
  CHECK(request_ids(plan.preempted) == std::vector<uint32_t>{2});
  CHECK(request_ids(plan.sequences) == std::vector<uint32_t>{1});
  CHECK_FALSE(large.holds_blocks());
  scheduler.check_integrity();
  compute(scheduler, plan);
  while (scheduler.has_work()) step(scheduler);
  CHECK(first.num_generated() == 9);
  CHECK(large.num_generated() == 4);
  CHECK(scheduler.counts().num_preemptions == 1);
}

TEST_CASE("scheduler: with a limit of one sequence the next starts when it ends") {
  Scheduler scheduler({.max_num_batched_tokens = 8, .max_num_seqs = 1, .block_size = 4, .num_blocks = 32});
  std::vector<Sequence> sequences;
  for (uint32_t id = 1; id <= 3; ++id) sequences.push_back(sequence_of(id, count_from(id * 30, 20), 5));
  for (Sequence& sequence : sequences) scheduler.add(sequence);
  for (uint32_t id = 1; id <= 3; ++id) {
    while (sequences[id - 1].status != SequenceStatus::kFinished) {
      const Plan plan = scheduler.schedule();
      CHECK(request_ids(plan.sequences) == std::vector<uint32_t>{id});
      compute(scheduler, plan);
    }
  }
}

TEST_CASE("scheduler: a step has no more sequences than rows") {
  for (const bool mixed : {false, true}) {
    Scheduler scheduler({.max_num_batched_tokens = 3,
                         .max_num_seqs = 8,
                         .block_size = 4,
                         .num_blocks = 32,
                         .mixed_batches = mixed});
    std::vector<Sequence> sequences;
    for (uint32_t id = 1; id <= 6; ++id) sequences.push_back(sequence_of(id, {id}, 20));
    for (Sequence& sequence : sequences) scheduler.add(sequence);
    while (scheduler.has_work()) {
      const Plan plan = scheduler.schedule();
      CHECK(plan.sequences.size() <= 3);
      compute(scheduler, plan);
    }
    for (const Sequence& sequence : sequences) CHECK(sequence.num_generated() == 20);
  }
}

TEST_CASE(
    "scheduler: the block of the token after the next one is taken if it is free and the token will come") {
  constexpr uint32_t kBlocks = 2;
  for (const uint32_t num_blocks : {kBlocks, kBlocks - 1}) {
    for (const uint32_t max_tokens : {2u, 3u}) {
      CAPTURE(num_blocks);
      CAPTURE(max_tokens);
      Scheduler scheduler({.block_size = 4, .num_blocks = num_blocks, .reserves_next = true});
      Sequence sequence = sequence_of(1, count_from(10, 3), max_tokens);
      scheduler.add(sequence);
      step(scheduler);
      // The fourth token fills the first block.
      const Plan plan = scheduler.schedule();
      CHECK(sequence.block_tables[0].size() == (num_blocks == kBlocks && max_tokens == 3 ? 2 : 1));
      compute(scheduler, plan);
      scheduler.check_integrity();
      if (max_tokens == 2) CHECK(scheduler.blocks().pool().num_free() == num_blocks);
    }
  }
}

}  // namespace runnel
