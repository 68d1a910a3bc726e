// The shares of drafts among sequences, and when there are no drafts.
#include <deque>

#include "test/fixtures/scheduling.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

SchedulerConfig config_with_drafts(uint32_t num_blocks = 100) {
  return {.max_num_batched_tokens = 32,
          .max_num_seqs = 10,
          .block_size = 4,
          .num_blocks = num_blocks,
          .mixed_prefill_tokens = 8,
          .speculation = true};
}

// Running sequences whose prompts repeat themselves.
struct Running {
  explicit Running(uint32_t num_sequences, const SchedulerConfig& config, uint32_t max_tokens = 100)
      : scheduler(config) {
    for (uint32_t id = 1; id <= num_sequences; ++id) {
      sequences.push_back(sequence_of(id, {id, id, id, id, id, id}, max_tokens));
      scheduler.add(sequences.back());
    }
    while (scheduler.num_waiting() > 0) prefill();
  }
  // Computes the prompts. The first tokens continue their repetition.
  void prefill() { settle(scheduler.schedule(), true); }
  void settle(const Plan& plan, bool all_drawn) {
    for (Sequence* sequence : plan.sequences) {
      const uint32_t num_drafts = sequence->num_drafts;
      if (all_drawn) {
        sequence->num_drafts = 0;
      } else {
        sequence->drop_drafts();
      }
      const bool is_complete =
          sequence->num_cached_tokens + sequence->num_scheduled_tokens == sequence->num_tokens();
      for (uint32_t i = 0; all_drawn && i < num_drafts; ++i) sequence->speculation.drew(true);
      if (is_complete) sequence->token_ids.push_back(sequence->token_ids.front());
      if (is_complete) sequence->speculation.drew(false);
      scheduler.advance(*sequence);
    }
    scheduler.check_integrity();
  }
  std::vector<uint32_t> num_drafts(const Plan& plan) const {
    std::vector<uint32_t> counts;
    for (const Sequence* sequence : plan.sequences) {
      CHECK(sequence->num_scheduled_tokens == 1 + sequence->num_drafts);
      counts.push_back(sequence->num_drafts);
    }
    return counts;
  }

  Scheduler scheduler;
  std::deque<Sequence> sequences;
};

// The numbers of drafts in the last of several steps in which all drafts were drawn.
std::vector<uint32_t> most_drafts(uint32_t num_sequences) {
  Running running(num_sequences, config_with_drafts());
  std::vector<uint32_t> counts;
  for (uint32_t i = 0; i < 5; ++i) {
    const Plan plan = running.scheduler.schedule();
    counts = running.num_drafts(plan);
    running.settle(plan, true);
  }
  return counts;
}

}  // namespace

TEST_CASE(
    "scheduler: drafts fill a step of few next tokens, and never more than double what others wait for") {
  CHECK(most_drafts(1) == std::vector<uint32_t>{7});
  CHECK(most_drafts(2) == std::vector<uint32_t>{1, 1});
  CHECK(most_drafts(4) == std::vector<uint32_t>{1, 1, 1, 1});
  CHECK(most_drafts(6) == std::vector<uint32_t>{0, 0, 0, 0, 1, 1});
  CHECK(most_drafts(8) == std::vector<uint32_t>(8, 0));
}

TEST_CASE("scheduler: the unused share of one sequence goes to the next ones") {
  Running running(1, config_with_drafts());
  Sequence free_text = sequence_of(9, count_from(50, 6), 100);
  running.scheduler.add(free_text);
  running.scheduler.pause(running.sequences[0]);
  running.prefill();
  running.scheduler.resume(running.sequences[0]);
  const Plan plan = running.scheduler.schedule();
  CHECK(request_ids(plan.sequences) == std::vector<uint32_t>{9, 1});
  CHECK(running.num_drafts(plan) == std::vector<uint32_t>{0, 2});
  running.settle(plan, true);
}

TEST_CASE("scheduler: no drafts while a sequence waits, and none in a step with a prompt") {
  Running running(1, config_with_drafts(12));
  // It is too long for the free blocks, so it waits for the end of the other one.
  Sequence long_one = sequence_of(9, count_from(100, 44), 2);
  running.scheduler.add(long_one);
  Plan plan = running.scheduler.schedule();
  CHECK(running.num_drafts(plan) == std::vector<uint32_t>{0});
  running.settle(plan, true);
  running.scheduler.finish(long_one);
  Sequence short_one = sequence_of(10, count_from(100, 6), 100);
  running.scheduler.add(short_one);
  plan = running.scheduler.schedule();
  CHECK(plan.num_decoding == 1);
  CHECK(plan.sequences.size() == 2);
  CHECK(plan.sequences[0]->num_drafts == 0);
}

TEST_CASE("scheduler: a rejected draft frees its block, which is taken next") {
  // 8 tokens of a prompt and one drawn token take three of the four blocks.
  SchedulerConfig config = config_with_drafts(4);
  Scheduler scheduler(config);
  Sequence sequence = sequence_of(1, std::vector<uint32_t>(8, 7), 8);
  scheduler.add(sequence);
  scheduler.schedule();
  scheduler.advance(sequence);
  for (uint32_t i = 0; i < 3; ++i) {
    sequence.token_ids.push_back(7);
    sequence.speculation.drew(true);
    const uint32_t num_free = scheduler.blocks().pool().num_free();
    const Plan plan = scheduler.schedule();
    CHECK(plan.preempted.empty());
    REQUIRE(sequence.num_drafts > 0);
    const uint32_t num_tokens = sequence.num_tokens();
    CHECK(sequence.block_tables[0].size() ==
          scheduler.blocks().windows().blocks_for(num_tokens + sequence.num_drafts));
    CHECK(sequence.block_tables[0].size() <= 4);
    sequence.drop_drafts();
    scheduler.advance(sequence);
    CHECK(sequence.num_tokens() == num_tokens);
    CHECK(sequence.block_tables[0].size() == scheduler.blocks().windows().blocks_for(num_tokens));
    CHECK(num_free - scheduler.blocks().pool().num_free() <= 1);
    scheduler.check_integrity();
  }
}

TEST_CASE("scheduler: rejected drafts evict at most one cached block") {
  SchedulerConfig config = config_with_drafts(12);
  Scheduler scheduler(config);
  Sequence known = sequence_of(1, count_from(50, 24), 1);
  scheduler.add(known);
  scheduler.schedule();
  scheduler.advance(known);
  scheduler.finish(known);
  CHECK(scheduler.blocks().pool().num_reusable() == 6);
  Sequence sequence = sequence_of(2, std::vector<uint32_t>(6, 7), 100);
  scheduler.add(sequence);
  scheduler.schedule();
  scheduler.advance(sequence);
  for (uint32_t i = 0; i < 50; ++i) {
    // The sequence has the same length each time, and its drafts need one more block.
    if (i > 0) sequence.token_ids.pop_back();
    sequence.token_ids.push_back(7);
    if (i > 0) --sequence.num_cached_tokens;
    for (uint32_t j = 0; j < 4; ++j) sequence.speculation.drew(true);
    scheduler.schedule();
    CHECK(sequence.num_drafts > 0);
    sequence.drop_drafts();
    scheduler.advance(sequence);
  }
  CHECK(scheduler.blocks().pool().num_reusable() >= 5);
}

TEST_CASE("scheduler: where no block is free there are no drafts, and nobody loses one to them") {
  SchedulerConfig config = config_with_drafts(3);
  Running running(1, config, 7);  // room for 12 tokens, which is what the request stores
  for (uint32_t i = 0; i < 6; ++i) {
    const Plan plan = running.scheduler.schedule();
    const Sequence& sequence = running.sequences[0];
    CHECK(sequence.num_cached_tokens + sequence.num_scheduled_tokens <= 12);
    CHECK(sequence.num_generated() + sequence.num_drafts < 7);
    running.settle(plan, false);
    if (sequence.num_generated() == 6) break;
  }
  CHECK(running.scheduler.counts().num_preemptions == 0);
}

}  // namespace runnel
