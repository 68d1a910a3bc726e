#include "runner/scheduler.h"

#include <map>
#include <random>

#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// Does what an engine does with a plan, with a token that depends on everything before it.
void compute(Scheduler& scheduler, const Plan& plan) {
  for (Sequence* sequence : plan.sequences) {
    if (!scheduler.advance(*sequence)) continue;
    const uint32_t next = sequence->token_ids.back() * 31 + sequence->num_tokens();
    sequence->token_ids.push_back(next % 100);
    if (sequence->num_generated() == sequence->max_tokens) scheduler.finish(*sequence);
  }
}

void step(Scheduler& scheduler) {
  compute(scheduler, scheduler.schedule());
}

std::vector<uint32_t> request_ids(const std::vector<Sequence*>& sequences) {
  std::vector<uint32_t> ids;
  for (const Sequence* sequence : sequences) ids.push_back(sequence->request_id);
  return ids;
}

}  // namespace

TEST_CASE("scheduler: only the first sequence of a step is cut into chunks") {
  Scheduler scheduler({.max_num_batched_tokens = 10, .max_num_seqs = 4, .block_size = 4, .num_blocks = 32});
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
  CHECK(second.block_table.empty());
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
  CHECK(first.block_table.size() == 2);
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
  CHECK(first.block_table.empty());
  compute(scheduler, plan);
  scheduler.resume(first);
  while (scheduler.has_work()) step(scheduler);
  CHECK(first.num_generated() == 9);
  CHECK(second.num_generated() == 9);
  CHECK(scheduler.blocks().num_free_blocks() == 4);
}

TEST_CASE("scheduler: a prompt paused between two chunks does not stop those behind it, nor them it") {
  Scheduler scheduler({.max_num_batched_tokens = 8, .max_num_seqs = 4, .block_size = 4, .num_blocks = 8});
  Sequence large = sequence_of(1, count_from(1, 28), 2);
  Sequence other = sequence_of(2, count_from(50, 24), 2);
  Sequence third = sequence_of(3, count_from(80, 24), 2);
  scheduler.add(large);
  scheduler.add(other);
  scheduler.add(third);
  step(scheduler);
  scheduler.pause(large);
  step(scheduler);  // takes the blocks of the paused one
  CHECK(large.block_table.empty());
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
    "scheduler: whatever is added, cancelled, paused and preempted, tokens stay the same and blocks add up") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  for (uint32_t round = 0; round < 40; ++round) {
    const SchedulerConfig config{.max_num_batched_tokens = 8 + below(40),
                                 .max_num_seqs = 1 + below(6),
                                 .block_size = 4,
                                 .num_blocks = 12 + below(20)};
    Scheduler scheduler(config);
    std::map<uint32_t, Sequence> live;
    uint32_t next_request_id = 1;
    for (uint32_t i = 0; i < 400; ++i) {
      const uint32_t action = below(10);
      if (action < 2 && live.size() < 12) {
        // 48 tokens are all that 12 blocks of 4 can hold; prompts share beginnings on purpose.
        const uint32_t num_prompt_tokens = 1 + below(30);
        const uint32_t request_id = next_request_id++;
        Sequence& added = live[request_id];
        added = sequence_of(request_id, count_from(below(3) * 50, num_prompt_tokens), 1 + below(18));
        if (below(5) == 0) added.prompt_logprobs = 0;
        scheduler.add(added);
      } else if (action < 5 && !live.empty()) {
        auto chosen = std::next(live.begin(), below(live.size()));
        if (action == 2 && below(3) == 0) {
          scheduler.finish(chosen->second);
          live.erase(chosen);
        } else if (action == 3) {
          scheduler.pause(chosen->second);
        } else {
          scheduler.resume(chosen->second);
        }
      }
      if (!scheduler.has_work()) continue;
      const Plan plan = scheduler.schedule();
      scheduler.check_integrity();
      CHECK(plan.sequences.size() <= config.max_num_seqs);
      uint32_t num_rows = 0;
      for (const Sequence* sequence : plan.sequences) num_rows += sequence->num_scheduled_tokens;
      CHECK(num_rows <= config.max_num_batched_tokens);
      compute(scheduler, plan);
      scheduler.check_integrity();
      std::erase_if(live, [](const auto& entry) { return entry.second.status == SequenceStatus::kFinished; });
    }
    for (auto& [id, sequence] : live) scheduler.resume(sequence);
    for (uint32_t num_steps = 0; scheduler.has_work(); ++num_steps) {
      REQUIRE(num_steps < 10000);
      step(scheduler);
    }
    for (const auto& [id, sequence] : live) {
      CHECK(sequence.num_generated() == sequence.max_tokens);
      for (uint32_t i = sequence.num_prompt_tokens; i < sequence.num_tokens(); ++i)
        CHECK(sequence.token_ids[i] == (sequence.token_ids[i - 1] * 31 + i) % 100);
    }
    CHECK(scheduler.blocks().num_free_blocks() == config.num_blocks);
  }
}

}  // namespace runnel
