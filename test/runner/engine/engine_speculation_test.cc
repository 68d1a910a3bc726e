// Steps that give a sequence several tokens. The tokens are those of plain steps, however the step goes on or
// ends.
#include <algorithm>
#include <map>
#include <random>

#include "test/fixtures/engine_fixture.h"

namespace runnel {
namespace {

// A request whose answer repeats itself, since few ids are allowed.
Sequence repeating(uint32_t request_id, uint32_t max_tokens, std::vector<uint32_t> allowed_ids = {5}) {
  Sequence sequence = sampled(request_id, count_from(request_id, 20), max_tokens);
  sequence.sampling.allowed_ids = std::move(allowed_ids);
  return sequence;
}

// Runs steps until one gives a sequence several tokens.
StepOutput step_with_drafts(Engine& engine, Answers& answers) {
  while (true) {
    REQUIRE(engine.has_work());
    StepOutput output = engine.step();
    collect(output, answers);
    if (std::ranges::any_of(output.tokens, &NewToken::was_draft)) return output;
  }
}

}  // namespace

TEST_CASE("engine: an answer that repeats itself takes fewer steps, and has the tokens it has without") {
  const Sequence request = repeating(1, 60);
  EngineFixture plain(roomy());
  CHECK_FALSE(plain.engine.add(request));
  CHECK(run(plain.engine)[1] == fake_answer(request));
  CHECK(plain.model.num_forwards == 60);
  CHECK(plain.engine.scheduler().counts().num_drafts == 0);

  EngineFixture fixture(speculating());
  CHECK_FALSE(fixture.engine.add(request));
  CHECK(run(fixture.engine)[1] == fake_answer(request));
  CHECK(fixture.model.num_forwards < 60 / 3);
  const uint64_t num_accepted = fixture.engine.counts().num_accepted_drafts;
  CHECK(fixture.model.num_forwards + num_accepted == 60);
  CHECK(fixture.engine.scheduler().counts().num_drafts >= num_accepted);
  CHECK(fixture.engine.num_free_blocks() == 200);
}

TEST_CASE("engine: a request ends in the middle of its drafts where it ends without them") {
  for (uint32_t max_tokens = 1; max_tokens < 40; ++max_tokens) {
    CAPTURE(max_tokens);
    EngineFixture fixture(speculating());
    const Sequence request = repeating(1, max_tokens);
    CHECK_FALSE(fixture.engine.add(request));
    std::vector<NewToken> tokens;
    while (fixture.engine.has_work())
      for (NewToken& token : fixture.engine.step().tokens) tokens.push_back(std::move(token));
    REQUIRE(tokens.size() == max_tokens);
    for (const NewToken& token : tokens) {
      const bool is_last = token.index + 1 == max_tokens;
      CHECK(token.finish_reason == (is_last ? FinishReason::kMaxTokens : FinishReason::kNone));
    }
    CHECK(fixture.engine.num_free_blocks() == 200);
  }
  // The context is full after 20 tokens.
  EngineFixture fixture(speculating(), 40);
  CHECK_FALSE(fixture.engine.add(repeating(1, 1000)));
  CHECK(run(fixture.engine)[1].size() == 20);
}

TEST_CASE("engine: a stop id among drafts ends the output and waits for min_tokens") {
  uint32_t num_before_drafts = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Sequence request = repeating(1, 60, {5, 6});
    request.sampling.repetition_penalty = 1.0f;
    request.sampling.seed = seed;
    request.stop_ids = {6};
    request.min_tokens = seed % 20;
    // After 5, 5, 5 the drafts are 6 and 5: one comes after the stop id.
    request.token_ids = {1, 2, 5, 5, 5, 6, 5, 9, 1, 2, 3};
    request.num_prompt_tokens = request.num_tokens();
    EngineFixture fixture(speculating());
    CHECK_FALSE(fixture.engine.add(request));
    Answers answers;
    while (fixture.engine.has_work()) {
      const Plan plan = fixture.engine.schedule();
      const uint32_t num_drafts = plan.sequences.at(0)->num_drafts;
      const StepOutput output = fixture.engine.compute(plan);
      collect(output, answers);
      const NewToken& last = output.tokens.back();
      const bool is_stop = last.was_draft && last.finish_reason == FinishReason::kStopId;
      num_before_drafts += is_stop && output.tokens.size() < num_drafts;
    }
    CHECK(answers[1] == fake_answer(request));
    CHECK(fixture.engine.num_free_blocks() == 200);
  }
  CHECK(num_before_drafts > 0);
}

TEST_CASE("engine: log-probabilities of accepted drafts equal those of plain steps") {
  Sequence request = repeating(1, 60);
  request.top_logprobs = 4;
  std::vector<NewToken> of_each[2];
  for (const bool speculates : {false, true}) {
    EngineFixture fixture(speculates ? speculating() : roomy());
    CHECK_FALSE(fixture.engine.add(request));
    while (fixture.engine.has_work())
      for (NewToken& token : fixture.engine.step().tokens) of_each[speculates].push_back(std::move(token));
  }
  REQUIRE(of_each[0].size() == of_each[1].size());
  for (size_t i = 0; i < of_each[0].size(); ++i) {
    const NewToken& plain = of_each[0][i];
    const NewToken& token = of_each[1][i];
    CHECK(token.token_id == plain.token_id);
    CHECK(token.logprobs->logprob == plain.logprobs->logprob);
    CHECK(token.logprobs->top_ids == plain.logprobs->top_ids);
    CHECK(token.logprobs->top_logprobs == plain.logprobs->top_logprobs);
  }
}

TEST_CASE(
    "engine: logits that are not finite end a request if they follow its tokens, not if they follow a "
    "draft") {
  // 8 poisons the rows after it. It is among the drafts, since it followed the first drawn token in the
  // prompt.
  Sequence request = repeating(1, 30);
  request.token_ids = {2, 3, 5, 8, 7, 2, 3};
  request.num_prompt_tokens = request.num_tokens();
  EngineFixture fixture(speculating());
  fixture.model.poison = 8;
  fixture.model.windows = {3};
  CHECK_FALSE(fixture.engine.add(request));
  CHECK(run(fixture.engine)[1] == std::vector<uint32_t>(30, 5));
  CHECK(fixture.engine.counts().num_failed == 0);
  CHECK(fixture.engine.scheduler().counts().num_drafts > fixture.engine.counts().num_accepted_drafts);

  // A draft that is drawn is reported, and then the row after it ends the request.
  Sequence failing = repeating(2, 30, {5, 8});
  failing.token_ids = {2, 3, 5, 8, 7, 2, 3};
  failing.num_prompt_tokens = failing.num_tokens();
  do ++failing.sampling.seed;
  while (fake_answer(failing, 200, {3})[0] != 5 || fake_answer(failing, 200, {3})[1] != 8);
  CHECK_FALSE(fixture.engine.add(failing));
  CHECK(fixture.engine.step().tokens.at(0).token_id == 5);
  const StepOutput output = fixture.engine.step();
  REQUIRE(output.tokens.size() == 1);
  CHECK(output.tokens[0].token_id == 8);
  CHECK(output.tokens[0].was_draft);
  CHECK(output.tokens[0].finish_reason == FinishReason::kNone);
  REQUIRE(output.errors.size() == 1);
  CHECK(output.errors[0].message == "The logits after token 8 of the request are not all finite numbers.");
  CHECK(fixture.engine.num_requests() == 0);
  CHECK(fixture.engine.num_free_blocks() == 200);
}

TEST_CASE("engine: a sequence cancelled during a step with drafts frees everything") {
  for (const uint32_t cancelled_at : {1u, 3u, 4u}) {
    EngineFixture fixture(speculating());
    Engine& engine = fixture.engine;
    CHECK_FALSE(engine.add(repeating(1, 100)));
    const Sequence other = repeating(2, 40);
    CHECK_FALSE(engine.add(other));
    Answers answers;
    (void)step_with_drafts(engine, answers);
    const uint64_t num_accepted = engine.counts().num_accepted_drafts;
    uint32_t num_calls = 0;
    const Plan plan = engine.schedule();
    CHECK(plan.sequences.at(0)->num_drafts > 0);
    const StepOutput output = engine.compute(plan, [&] {
      if (++num_calls == cancelled_at) CHECK(engine.cancel(1));
    });
    for (const NewToken& token : output.tokens) CHECK(token.request_id == 2);
    CHECK(engine.counts().num_accepted_drafts - num_accepted + 1 == output.tokens.size());
    collect(output, answers);
    while (engine.has_work()) collect(engine.step(), answers);
    CHECK(answers[2] == fake_answer(other));
    CHECK(engine.num_free_blocks() == 200);
  }
}

TEST_CASE("engine: blocks that only rejected drafts filled are not found by others") {
  // The end of the prompt repeats its beginning, but 9 is not drawn after it, so the rows of a new block are
  // computed for nothing.
  Sequence request = repeating(1, 30);
  request.token_ids = {2, 3, 5, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 2, 3};
  request.num_prompt_tokens = request.num_tokens();
  EngineFixture fixture(speculating());
  CHECK_FALSE(fixture.engine.add(request));
  CHECK(run(fixture.engine)[1] == fake_answer(request));
  CHECK(fixture.engine.scheduler().counts().num_drafts > fixture.engine.counts().num_accepted_drafts);
  // The next request finds in the cache what it would have computed.
  Sequence next = sampled(2, request.token_ids, 30);
  const std::vector<uint32_t> answer = fake_answer(request);
  next.token_ids.insert(next.token_ids.end(), answer.begin(), answer.end());
  next.num_prompt_tokens = next.num_tokens();
  CHECK_FALSE(fixture.engine.add(next));
  CHECK(run(fixture.engine)[2] == fake_answer(next));
  CHECK(fixture.engine.scheduler().counts().num_cached_tokens >= 40);
}

TEST_CASE(
    "engine: with drafts, too, tokens do not depend on company, preemption, pauses, windows or restarts") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  uint64_t num_preempted = 0, num_accepted = 0, num_rejected = 0;
  for (uint32_t round = 0; round < 60; ++round) {
    CAPTURE(round);
    const FakeWindows windows = round % 3 == 0   ? FakeWindows{1 + below(40)}
                                : round % 3 == 1 ? FakeWindows{0, 1 + below(20), 1 + below(10)}
                                                 : FakeWindows{0};
    EngineFixture fixture({.max_num_batched_tokens = 1 + below(30),
                           .max_num_seqs = 1 + below(6),
                           .block_size = 8,
                           .num_blocks = num_required_blocks(80, 8, windows) + below(12),
                           .mixed_batches = round % 2 == 0,
                           .mixed_prefill_tokens = 1 + below(10),
                           .speculation = true,
                           .windows = windows});
    Engine& engine = fixture.engine;
    Answers answers;
    std::map<uint32_t, Sequence> requests;
    std::vector<uint32_t> cancelled;
    const auto add = [&](uint32_t id) {
      Sequence& request = requests[id];
      request = sampled(id, count_from(below(3), 1 + below(40)), 1 + below(40));
      request.sampling.temperature = below(3) == 0 ? 0.0f : 1.0f;
      request.sampling.frequency_penalty = below(3) == 0 ? 0.7f : 0.0f;
      if (below(4) > 0) request.sampling.allowed_ids = count_from(0, 1 + below(3));
      if (below(3) == 0) request.stop_ids = {2};
      request.min_tokens = request.stop_ids.empty() || request.sampling.allowed_ids.size() == 3
                               ? below(request.max_tokens)
                               : 0;
      if (below(3) == 0) request.top_logprobs = 2;
      // Half of the requests were begun by an earlier runner.
      std::vector<uint32_t> emitted = fake_answer(request, 200, windows);
      emitted.resize(below(2) * below(emitted.size()));
      answers[id] = emitted;
      Sequence continued = request;
      continued.token_ids.insert(continued.token_ids.end(), emitted.begin(), emitted.end());
      CHECK_FALSE(engine.add(continued));
    };
    for (uint32_t i = 0; i < 300; ++i) {
      const uint32_t action = below(12);
      const uint32_t request_id = 1 + below(requests.size() + 1);
      if (action == 0 && requests.size() < 15) {
        add(static_cast<uint32_t>(requests.size() + 1));
      } else if (action == 1 && below(6) == 0 && engine.cancel(request_id)) {
        cancelled.push_back(request_id);
      } else if (action == 2) {
        engine.pause(request_id);
      } else if (action == 3) {
        engine.resume(request_id);
      }
      if (!engine.has_work()) continue;
      const Plan plan = engine.schedule();
      num_preempted += plan.preempted.size();
      const auto cancel_some = [&] {
        const uint32_t id = 1 + below(requests.size() + 1);
        if (below(60) == 0 && engine.cancel(id)) cancelled.push_back(id);
      };
      collect(engine.compute(plan, cancel_some), answers);
      engine.scheduler().check_integrity();
    }
    engine.resume_all();
    while (engine.has_work()) collect(engine.step(), answers);
    for (const auto& [id, request] : requests) {
      std::vector<uint32_t> expected = fake_answer(request, 200, windows);
      if (std::ranges::count(cancelled, id) > 0) expected.resize(answers[id].size());
      CHECK(answers[id] == expected);
    }
    CHECK(engine.num_requests() == 0);
    CHECK(engine.num_free_blocks() == engine.config().scheduler.num_blocks);
    num_accepted += engine.counts().num_accepted_drafts;
    num_rejected += engine.scheduler().counts().num_drafts - engine.counts().num_accepted_drafts;
  }
  CHECK(num_preempted > 0);
  CHECK(num_accepted > 100);
  CHECK(num_rejected > 100);
}

}  // namespace runnel
