// Properties of the scheduler that hold for random requests, pauses and cancels in any order.
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "test/fixtures/scheduling.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// num_waiting: the number before the plan.
void check_plan(const Plan& plan, const SchedulerConfig& config, size_t num_waiting) {
  CHECK(plan.sequences.size() <= config.max_num_seqs);
  uint32_t num_rows = 0;
  uint32_t num_prompt_rows = 0;
  uint32_t num_drafts = 0;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const uint32_t num_scheduled = plan.sequences[i]->num_scheduled_tokens;
    CHECK(num_scheduled > 0);
    if (i < plan.num_decoding) CHECK(num_scheduled == 1 + plan.sequences[i]->num_drafts);
    if (i >= plan.num_decoding) CHECK(plan.sequences[i]->num_drafts == 0);
    num_drafts += plan.sequences[i]->num_drafts;
    if (i >= plan.num_decoding) num_prompt_rows += num_scheduled;
    num_rows += num_scheduled;
  }
  CHECK(num_rows <= config.max_num_batched_tokens);
  if (num_drafts > 0) {
    CHECK(config.speculation);
    CHECK(plan.num_decoding + num_drafts <= kDraftRows);
    CHECK((plan.num_decoding == 1 || num_drafts <= plan.num_decoding));
    CHECK(num_waiting + plan.preempted.size() == 0);
  }
  if (plan.num_decoding == 0) return;
  const size_t num_places = config.max_num_seqs - plan.num_decoding;
  const size_t num_starting = std::min(num_waiting + plan.preempted.size(), num_places);
  const size_t num_rows_each = std::max(config.mixed_prefill_tokens * (plan.num_decoding + 8) / 16, 1u);
  CHECK(num_prompt_rows <= (config.mixed_batches ? num_starting * num_rows_each : 0));
}

// Counts the steps in which a running sequence has had no turn.
class Turns {
 public:
  explicit Turns(const SchedulerConfig& config) : config_(config) {}

  // expect() is called before the plan of each step, check() after it.
  void expect(const std::map<uint32_t, Sequence>& live) {
    running_.clear();
    for (const auto& [id, sequence] : live)
      if (sequence.status == SequenceStatus::kRunning) running_.insert(id);
    std::erase_if(waits_, [&](const auto& wait) { return !running_.contains(wait.first); });
    for (const uint32_t id : running_) waits_.try_emplace(id, Wait{0, running_.size()});
  }
  void check(const Plan& plan, const std::map<uint32_t, Sequence>& live) {
    if (plan.num_decoding == 0) return;
    for (const Sequence* sequence : plan.sequences) waits_.erase(sequence->request_id);
    const size_t num_places =
        std::max(1u, std::min(config_.max_num_seqs, config_.max_num_batched_tokens) - 1);
    for (auto& [id, wait] : waits_) {
      if (live.at(id).status != SequenceStatus::kRunning) continue;  // it lost its blocks
      // Without mixed batches a sequence that was never resumed waits as in nano-vLLM.
      if (!config_.mixed_batches && !live.at(id).was_resumed) continue;
      CHECK(++wait.num_steps < (wait.num_running + num_places - 1) / num_places);
      longest_ = std::max(longest_, wait.num_steps);
    }
  }
  size_t longest() const { return longest_; }

 private:
  struct Wait {
    size_t num_steps;
    size_t num_running;  // when the wait began
  };

  SchedulerConfig config_;
  std::set<uint32_t> running_;
  std::map<uint32_t, Wait> waits_;
  size_t longest_ = 0;
};

}  // namespace

TEST_CASE("scheduler: ten thousand cancels, whenever they come, leave every block free") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  Scheduler scheduler({.max_num_batched_tokens = 32,
                       .max_num_seqs = 8,
                       .block_size = 4,
                       .num_blocks = 40,
                       .mixed_prefill_tokens = 8});
  std::deque<Sequence> live;
  for (uint32_t id = 1; id <= 10000; ++id) {
    live.push_back(sequence_of(id, count_from(below(4) * 50, 1 + below(60)), 1000));
    scheduler.add(live.back());
    for (uint32_t i = below(4); i > 0; --i) compute(scheduler, scheduler.schedule());
    if (below(8) == 0) scheduler.pause(live.front());
    if (live.size() < 10) continue;
    scheduler.finish(live.front());
    live.pop_front();
    scheduler.check_integrity();
  }
  for (Sequence& sequence : live) scheduler.finish(sequence);
  CHECK_FALSE(scheduler.has_work());
  CHECK(scheduler.blocks().pool().num_free() == 40);
}

TEST_CASE(
    "scheduler: whatever is added, cancelled, paused and preempted, tokens stay the same and blocks add up") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  const std::vector<uint32_t> windows[] = {{0}, {1}, {3}, {4}, {9}, {30}, {0, 9}, {0, 1, 5}, {0, 0, 30}};
  const char* const salts[] = {"", "a", "b"};
  SchedulerCounts total;
  size_t longest_wait = 0;
  for (uint32_t round = 0; round < 120; ++round) {
    const std::vector<uint32_t>& of_groups = windows[below(9)];
    const SchedulerConfig config{
        .max_num_batched_tokens = 2 + below(46),
        .max_num_seqs = 1 + below(6),
        .block_size = 4,
        .num_blocks = std::max(12u, num_required_blocks(48, 4, of_groups)) + below(20),
        .mixed_batches = round % 2 == 0,
        .mixed_prefill_tokens = 1 + below(12),
        .speculation = below(2) == 0,
        .reserves_next = below(2) == 0,
        .windows = of_groups};
    CAPTURE(round);
    Scheduler scheduler(config);
    std::map<uint32_t, Sequence> live;
    Turns turns(config);
    uint32_t next_request_id = 1;
    for (uint32_t i = 0; i < 300; ++i) {
      const uint32_t action = below(10);
      if (action < 2 && live.size() < 12) {
        // There is room for 48 tokens, or with windows in all layers for any number. Many prompts begin in
        // the same way.
        const uint32_t num_prompt_tokens = 1 + below(config.windows.front() > 0 && below(3) == 0 ? 200 : 30);
        const uint32_t request_id = next_request_id++;
        Sequence& added = live[request_id];
        added = sequence_of(request_id, count_from(below(3) * 50, num_prompt_tokens), 1 + below(18));
        if (below(5) == 0) added.prompt_logprobs = 0;
        added.cache_salt = salts[below(3)];
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
      scheduler.check_integrity();
      if (!scheduler.has_work()) continue;
      turns.expect(live);
      const size_t num_waiting = scheduler.num_waiting();
      const Plan plan = scheduler.schedule();
      scheduler.check_integrity();
      check_plan(plan, config, num_waiting);
      turns.check(plan, live);
      compute(scheduler, plan);
      scheduler.check_integrity();
      std::erase_if(live, [](const auto& entry) { return entry.second.status == SequenceStatus::kFinished; });
    }
    for (auto& [id, sequence] : live) scheduler.resume(sequence);
    for (uint32_t num_steps = 0; scheduler.has_work(); ++num_steps) {
      REQUIRE(num_steps < 10000);
      step(scheduler);
      scheduler.check_integrity();
    }
    for (const auto& [id, sequence] : live) {
      CHECK(sequence.num_generated() == sequence.max_tokens);
      for (uint32_t i = sequence.num_prompt_tokens; i < sequence.num_tokens(); ++i)
        CHECK(sequence.token_ids[i] == next_token(sequence, i));
    }
    CHECK(scheduler.blocks().pool().num_free() == config.num_blocks);
    longest_wait = std::max(longest_wait, turns.longest());
    total.num_preemptions += scheduler.counts().num_preemptions;
    total.num_mixed_steps += scheduler.counts().num_mixed_steps;
    total.num_drafts += scheduler.counts().num_drafts;
    total.num_cached_tokens += scheduler.counts().num_cached_tokens;
  }
  CHECK(longest_wait > 1);
  CHECK(total.num_preemptions > 0);
  CHECK(total.num_mixed_steps > 0);
  CHECK(total.num_cached_tokens > 0);
  CHECK(total.num_drafts > 0);
}

TEST_CASE("scheduler: first tokens come in order of arrival, however little memory there is") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  for (uint32_t round = 0; round < 60; ++round) {
    CAPTURE(round);
    Scheduler scheduler({.max_num_batched_tokens = 2 + below(30),
                         .max_num_seqs = 1 + below(6),
                         .block_size = 4,
                         .num_blocks = 12 + below(12),
                         .mixed_batches = round % 2 == 0,
                         .mixed_prefill_tokens = 1 + below(8)});
    std::deque<Sequence> sequences;
    std::vector<uint32_t> first_tokens;
    for (uint32_t num_steps = 0; sequences.size() < 40 || scheduler.has_work(); ++num_steps) {
      REQUIRE(num_steps < 20000);
      if (sequences.size() < 40 && below(2) == 0) {
        const auto id = static_cast<uint32_t>(sequences.size() + 1);
        sequences.push_back(sequence_of(id, count_from(below(3) * 50, 1 + below(30)), 1 + below(18)));
        scheduler.add(sequences.back());
      }
      if (!scheduler.has_work()) continue;
      const Plan plan = scheduler.schedule();
      compute(scheduler, plan);
      // A sequence that lost its blocks after its first token is planned again with that one token.
      for (const Sequence* sequence : plan.sequences) {
        const bool is_told = std::ranges::count(first_tokens, sequence->request_id) > 0;
        if (sequence->num_generated() == 1 && !is_told) first_tokens.push_back(sequence->request_id);
      }
    }
    CHECK(first_tokens == count_from(1, 40));
  }
}

}  // namespace runnel
