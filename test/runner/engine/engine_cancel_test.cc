#include "test/fixtures/engine_fixture.h"

namespace runnel {

TEST_CASE("engine: a sequence cancelled in the middle of a step loses its rows at the end of the batch") {
  for (const uint32_t cancelled : {1u, 2u, 3u}) {
    CAPTURE(cancelled);
    EngineFixture fixture(roomy());
    std::vector<Sequence> requests;
    for (uint32_t id = 1; id <= 3; ++id) requests.push_back(sampled(id, count_from(id * 10, 15), 5));
    for (const Sequence& request : requests) CHECK_FALSE(fixture.engine.add(request));
    uint32_t num_calls = 0;
    const StepOutput output = fixture.engine.compute(fixture.engine.schedule(), [&] {
      // Called several times in a step: only the first cancel finds the request. Its blocks stay in use until
      // the step ends, because they may still be written.
      const uint32_t num_free = fixture.engine.num_free_blocks();
      CHECK(fixture.engine.cancel(cancelled) == (num_calls++ == 0));
      CHECK(fixture.engine.num_free_blocks() == num_free);
    });
    CHECK(num_calls == 4);  // between the layers, and before the wait for the tokens
    CHECK(fixture.model.num_last_rows == (cancelled == 3 ? 30 : 45));
    CHECK(output.tokens.size() == 2);
    CHECK(output.errors.empty());
    CHECK_FALSE(fixture.engine.contains(cancelled));
    Answers answers;
    collect(output, answers);
    while (fixture.engine.has_work()) collect(fixture.engine.step(), answers);
    for (const Sequence& request : requests) {
      if (request.request_id == cancelled) continue;
      CHECK(answers[request.request_id] == fake_answer(request));
    }
    CHECK(fixture.engine.num_free_blocks() == 200);
  }
}

TEST_CASE("engine: a step of which nothing is left is abandoned, before or in the middle of the forward") {
  for (const bool before : {true, false}) {
    EngineFixture fixture(roomy());
    CHECK_FALSE(fixture.engine.add(sampled(1, count_from(1, 50), 5)));
    uint32_t num_calls = 0;
    const Plan plan = fixture.engine.schedule();
    if (before) CHECK(fixture.engine.cancel(1));
    const StepOutput output = fixture.engine.compute(plan, [&] {
      ++num_calls;
      CHECK(fixture.engine.cancel(1));
    });
    CHECK(num_calls == (before ? 0 : 1));
    CHECK(output.tokens.empty());
    CHECK(fixture.engine.num_requests() == 0);
    CHECK_FALSE(fixture.engine.has_work());
    CHECK(fixture.engine.num_free_blocks() == 200);
  }
}

TEST_CASE("engine: a cancel among the scores of a long prompt ends them, and takes back what the step made") {
  constexpr uint32_t kNumLayerCalls = 3;
  // 100 scores and a token take four groups of logits. The other request has its token in the first group; it
  // is cancelled too, or goes on.
  for (const bool both : {false, true}) {
    for (const uint32_t cancelled_at :
         {1u, kNumLayerCalls, kNumLayerCalls + 1, kNumLayerCalls + 3, kNumLayerCalls + 4}) {
      CAPTURE(both);
      CAPTURE(cancelled_at);
      SchedulerConfig scheduler = roomy();
      scheduler.max_num_batched_tokens = 128;
      scheduler.mixed_prefill_tokens = 256;
      EngineFixture fixture(scheduler);
      Engine& engine = fixture.engine;
      const Sequence other = sampled(1, count_from(50, 10), 2);
      Answers answers;
      CHECK_FALSE(engine.add(other));
      collect(engine.step(), answers);
      Sequence scored = sampled(2, count_from(0, 101), 5);
      scored.prompt_logprobs = 2;
      CHECK_FALSE(engine.add(scored));

      uint32_t num_calls = 0;
      const StepOutput output = engine.compute(engine.schedule(), [&] {
        if (++num_calls != cancelled_at) return;
        CHECK(engine.cancel(2));
        if (both) CHECK(engine.cancel(1));
      });
      CHECK(output.scored.empty());
      CHECK(output.errors.empty());
      collect(output, answers);
      CHECK(answers.size() == 1);
      CHECK(answers[1].size() == (both ? 1 : 2));
      if (!both) CHECK(answers[1] == fake_answer(other));
      CHECK(engine.num_requests() == 0);
      CHECK(engine.counts().num_failed == (both ? 2 : 1));
      CHECK(engine.counts().num_finished == (both ? 0 : 1));
      CHECK(engine.num_free_blocks() == 200);
      // Its prompt is not cached either, wherever in the step it was cancelled.
      CHECK(engine.scheduler().blocks().pool().num_reusable() == 1);
    }
  }
}

}  // namespace runnel
