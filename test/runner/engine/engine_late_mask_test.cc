// Sequences whose masks are late: the steps of those beside them, their own tokens, and the bounds.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "test/fixtures/engine_fixture.h"
#include "test/fixtures/engine_masks.h"

namespace runnel {
namespace {

using namespace std::chrono_literals;
using test::FewIds;
using test::masked;
using test::masked_answer;
using Time = std::chrono::steady_clock::time_point;

// Masks that take this long each, half of them with two ids of which one is guessed.
const FewIds kHalfGuessed(2, 5);

class SlowMask final : public FewIds {
 public:
  explicit SlowMask(std::chrono::nanoseconds cost) : FewIds(kHalfGuessed), cost_(cost) {}
  std::chrono::nanoseconds cost() const { return cost_; }

 private:
  std::chrono::nanoseconds cost_;
};

// Fills masks on some threads of a clock that stands still between calls.
class VirtualMasks final : public MaskFiller {
 public:
  VirtualMasks(Time& now, uint32_t num_threads) : now_(now), free_at_(num_threads) {}

  void start(const std::shared_ptr<MaskJob>& job) override {
    fill_masks(*job, kFakeVocabSize);
    const auto thread = std::ranges::min_element(free_at_);
    *thread = std::max(*thread, now_) +
              job->next.allowed_bits.size() * static_cast<const SlowMask&>(*job->mask).cost();
    done_at_[job.get()] = *thread;
  }
  void drop(const std::shared_ptr<MaskJob>&) override {}
  bool is_done(const MaskJob& job) override { return done_at_.at(&job) <= now_; }
  void wait(std::span<const std::shared_ptr<MaskJob>> jobs,
            std::optional<std::chrono::nanoseconds> at_most) override {
    Time until = now_;
    for (const auto& job : jobs) until = std::max(until, done_at_.at(job.get()));
    now_ = at_most ? std::min(until, now_ + *at_most) : until;
  }
  void on_done(std::function<void()>) override {}
  // Lets time pass until another mask is there.
  void pass() {
    Time next = Time::max();
    for (const auto& [job, done_at] : done_at_)
      if (done_at > now_) next = std::min(next, done_at);
    CHECK(next != Time::max());
    now_ = next;
  }

 private:
  Time& now_;
  std::vector<Time> free_at_;
  std::map<const MaskJob*, Time> done_at_;
};

// An engine whose steps take a time of a clock of its own, and that serves as serve() does.
struct LateMaskFixture {
  explicit LateMaskFixture(SchedulerConfig scheduler = roomy(), uint32_t num_threads = 2)
      : model(scheduler.block_size, scheduler.num_blocks, scheduler.max_num_batched_tokens),
        masks(new VirtualMasks(now, num_threads)),
        engine(
            model, {.max_model_len = 1000, .scheduler = scheduler}, [this] { return now; },
            std::unique_ptr<MaskFiller>(masks)) {
    model.num_layers = 2;
    model.in_layer = [this] { now += step_time; };
    engine.allow_late_masks([] {});
  }

  // Serves for this time, or until everything has ended.
  void serve(std::chrono::nanoseconds time = 10h) {
    const Time end = now + time;
    while (now < end && (engine.has_work() || engine.has_late())) {
      for (const uint32_t id : engine.late_with_masks()) CHECK(engine.continue_late(id));
      if (engine.has_work()) {
        collect(engine.step(), answers);
        ++num_steps;
      } else {
        masks->pass();
      }
      engine.scheduler().check_integrity();
    }
  }

  Time now{};
  std::chrono::nanoseconds step_time = 12ms;
  FakeModel model;
  VirtualMasks* masks;  // the engine's
  Engine engine;
  Answers answers;
  uint32_t num_steps = 0;
};

Sequence slow(uint32_t request_id, std::chrono::nanoseconds cost, uint32_t max_tokens = 30) {
  Sequence sequence = masked(request_id, max_tokens);
  sequence.mask = std::make_shared<SlowMask>(cost);
  return sequence;
}

std::vector<uint32_t> slow_answer(const Sequence& request) {
  return masked_answer(request, FewIds(kHalfGuessed));
}

// Tokens of a stream without a mask in ten seconds beside streams with masks that take this long.
size_t plain_tokens_beside(uint32_t num_slow, std::chrono::nanoseconds cost,
                           std::chrono::nanoseconds step_time) {
  SchedulerConfig scheduler = speculating();
  scheduler.max_num_seqs = 9;
  scheduler.num_blocks = 2000;
  LateMaskFixture fixture(scheduler);
  fixture.step_time = step_time;
  CHECK_FALSE(fixture.engine.add(sampled(1, count_from(1, 10), 900)));
  for (uint32_t id = 2; id < 2 + num_slow; ++id) CHECK_FALSE(fixture.engine.add(slow(id, cost, 900)));
  fixture.serve(10s);
  return fixture.answers[1].size();
}

TEST_CASE(
    "engine late masks: a stream keeps four fifths of its steps beside others with masks and guesses of any "
    "cost") {
  for (const auto step_time : {12ms, 40ms}) {
    const size_t alone = plain_tokens_beside(0, 0ms, step_time);
    for (const uint32_t num_slow : {1u, 3u, 8u}) {
      for (const auto cost : {1ms, 5ms, 15ms, 25ms, 60ms, 200ms, 500ms, 5000ms}) {
        CAPTURE(num_slow);
        CAPTURE(cost.count());
        CHECK(5 * (plain_tokens_beside(num_slow, cost, step_time) + 1) >= 4 * alone);
      }
    }
  }
}

TEST_CASE("engine late masks: the answers are those of steps that wait, however late the masks are") {
  for (const auto cost : {1ms, 15ms, 70ms, 500ms}) {
    CAPTURE(cost.count());
    LateMaskFixture fixture(speculating());
    Answers expected;
    for (uint32_t id = 1; id <= 6; ++id) {
      Sequence request = id % 3 == 0 ? sampled(id, count_from(1, 10), 30) : slow(id, id * cost);
      expected[id] = request.mask ? slow_answer(request) : fake_answer(request);
      CHECK_FALSE(fixture.engine.add(std::move(request)));
    }
    fixture.serve();
    CHECK(fixture.answers == expected);
    CHECK(fixture.engine.num_free_blocks() == 200);
  }
}

TEST_CASE("engine late masks: a stream alone waits for its masks, and computes each row at most twice") {
  LateMaskFixture fixture;
  CHECK_FALSE(fixture.engine.add(slow(1, 500ms)));
  fixture.serve();
  CHECK(fixture.answers[1] == slow_answer(masked(1)));
  CHECK(fixture.num_steps <= 2 * 30);
  CHECK(fixture.now - Time() < 30 * (500ms + 3 * 12ms));
}

TEST_CASE(
    "engine late masks: the step says who sat it out, and the stream gets no token before it continues") {
  LateMaskFixture fixture;
  CHECK_FALSE(fixture.engine.add(slow(1, 500ms)));
  const StepOutput output = fixture.engine.step();
  CHECK(output.late == std::vector<uint32_t>{1});
  CHECK(output.tokens.empty());
  CHECK(fixture.engine.has_late());
  CHECK_FALSE(fixture.engine.has_work());
  CHECK(fixture.engine.late_with_masks().empty());
  fixture.masks->pass();
  CHECK(fixture.engine.late_with_masks() == std::vector<uint32_t>{1});
  CHECK(fixture.engine.continue_late(1));
  CHECK_FALSE(fixture.engine.continue_late(1));
  CHECK(fixture.engine.step().tokens.size() == 1);
}

TEST_CASE(
    "engine late masks: a late stream is cancelled at once, and a paused one continues when it is resumed") {
  LateMaskFixture fixture;
  CHECK_FALSE(fixture.engine.add(slow(1, 500ms)));
  CHECK_FALSE(fixture.engine.add(slow(2, 500ms)));
  CHECK(fixture.engine.step().late.size() == 2);
  CHECK(fixture.engine.cancel(1));
  CHECK(fixture.engine.num_requests() == 1);
  fixture.engine.pause(2);
  fixture.engine.resume(2);
  CHECK_FALSE(fixture.engine.has_work());
  fixture.engine.pause(2);
  fixture.masks->pass();
  CHECK(fixture.engine.continue_late(2));
  CHECK_FALSE(fixture.engine.has_work());
  fixture.engine.resume(2);
  fixture.serve();
  CHECK(fixture.answers[2] == slow_answer(masked(2)));
  CHECK(fixture.engine.num_free_blocks() == 200);
}

TEST_CASE("engine late masks: where nobody may be late a step waits for all masks") {
  LateMaskFixture fixture;
  fixture.engine.forbid_late_masks();
  CHECK_FALSE(fixture.engine.add(slow(1, 500ms)));
  CHECK(run(fixture.engine)[1] == slow_answer(masked(1)));
  CHECK(fixture.model.num_forwards == 30);
}

TEST_CASE(
    "engine late masks: tokens do not depend on who is late, little memory, chunks, pauses or cancels") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  uint64_t num_late = 0, num_preempted = 0, num_accepted = 0;
  // Preemption is rare while masks are late: a seed may need more rounds until it happens.
  const auto is_covered = [&] { return num_late > 100 && num_preempted > 0 && num_accepted > 100; };
  for (uint32_t round = 0; round < 60 || (!is_covered() && round < 6000); ++round) {
    CAPTURE(round);
    LateMaskFixture fixture({.max_num_batched_tokens = 1 + below(30),
                             .max_num_seqs = 1 + below(6),
                             .block_size = 8,
                             .num_blocks = 10 + below(12),
                             .mixed_batches = round % 2 == 0,
                             .mixed_prefill_tokens = 1 + below(10),
                             .speculation = true});
    Engine& engine = fixture.engine;
    std::map<uint32_t, std::vector<uint32_t>> expected;
    std::vector<uint32_t> cancelled;
    for (uint32_t i = 0; i < 300; ++i) {
      const uint32_t action = below(10);
      const uint32_t id = 1 + below(expected.size() + 1);
      if (action == 0 && expected.size() < 12) {
        const auto new_id = static_cast<uint32_t>(expected.size() + 1);
        Sequence request = slow(new_id, 1ms * below(100), 1 + below(40));
        if (below(3) == 0) request.mask = nullptr;
        if (below(3) == 0) request.prompt_logprobs = 2;
        expected[new_id] = request.mask ? slow_answer(request) : fake_answer(request);
        CHECK_FALSE(engine.add(std::move(request)));
      } else if (action == 1 && below(6) == 0 && engine.cancel(id)) {
        cancelled.push_back(id);
      } else if (action == 2) {
        engine.pause(id);
      } else if (action == 3) {
        engine.resume(id);
      }
      for (const uint32_t late : engine.late_with_masks()) CHECK(engine.continue_late(late));
      if (!engine.has_work()) {
        fixture.now += 5ms;
        continue;
      }
      const Plan plan = engine.schedule();
      const StepOutput output = engine.compute(plan, [&] {
        const uint32_t other = 1 + below(expected.size() + 1);
        if (below(60) == 0 && engine.cancel(other)) cancelled.push_back(other);
      });
      num_late += output.late.size();
      collect(output, fixture.answers);
      engine.scheduler().check_integrity();
    }
    engine.resume_all();
    fixture.serve();
    for (auto& [id, answer] : expected) {
      if (std::ranges::count(cancelled, id) > 0) answer.resize(fixture.answers[id].size());
      CHECK(fixture.answers[id] == answer);
    }
    CHECK(engine.num_requests() == 0);
    CHECK(engine.num_free_blocks() == engine.config().scheduler.num_blocks);
    num_preempted += engine.scheduler().counts().num_preemptions;
    num_accepted += engine.counts().num_accepted_drafts;
  }
  CHECK(is_covered());
}

}  // namespace
}  // namespace runnel
