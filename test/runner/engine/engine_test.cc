#include "runner/engine/engine.h"

#include <map>
#include <random>

#include "test/fixtures/engine_fixture.h"

namespace runnel {
namespace {

// Counts on from this id, round and round through the vocabulary.
std::vector<uint32_t> long_prompt(uint32_t first, uint32_t num_tokens) {
  std::vector<uint32_t> ids = count_from(first, num_tokens);
  for (uint32_t& id : ids) id %= kFakeVocabSize;
  return ids;
}

}  // namespace

TEST_CASE("engine: a request's tokens depend on its own logits only") {
  EngineFixture fixture(roomy());
  const Sequence request = sampled(1, count_from(1, 20), 30);
  CHECK_FALSE(fixture.engine.add(request));
  CHECK(run(fixture.engine)[1] == fake_answer(request));
  CHECK(fixture.engine.num_requests() == 0);
  CHECK(fixture.engine.num_free_blocks() == 200);
}

TEST_CASE("engine: ends at a stop id, at max_tokens and at the end of the context, and says which") {
  EngineFixture fixture(roomy(), 40);
  Sequence stopped = sequence_of(1, count_from(1, 5), 30);
  const uint32_t fourth = fake_answer(stopped)[3];
  stopped.stop_ids = {90, fourth};
  CHECK_FALSE(fixture.engine.add(stopped));
  CHECK_FALSE(fixture.engine.add(sequence_of(2, count_from(50, 5), 3)));
  CHECK_FALSE(fixture.engine.add(sequence_of(3, count_from(20, 30), 1000)));
  std::map<uint32_t, NewToken> last;
  while (fixture.engine.has_work()) {
    for (const NewToken& token : fixture.engine.step().tokens) {
      CHECK((!last.contains(token.request_id) ||
             last.at(token.request_id).finish_reason == FinishReason::kNone));
      last.insert_or_assign(token.request_id, token);
    }
  }
  CHECK(last.at(1).finish_reason == FinishReason::kStopId);
  CHECK(last.at(1).token_id == fourth);
  CHECK(last.at(2).finish_reason == FinishReason::kMaxTokens);
  CHECK(last.at(2).index == 2);
  CHECK(last.at(3).finish_reason == FinishReason::kMaxTokens);
  CHECK(last.at(3).index == 9);  // 30 + 10 tokens fill the context
}

TEST_CASE("engine: a request continued with its emitted tokens goes on as if nothing had happened") {
  const Sequence request = sampled(1, count_from(1, 20), 30);
  const std::vector<uint32_t> whole = fake_answer(request);
  for (const uint32_t num_emitted : {1u, 7u, 29u}) {
    EngineFixture fixture(roomy());
    Sequence continued = request;
    continued.token_ids.insert(continued.token_ids.end(), whole.begin(), whole.begin() + num_emitted);
    CHECK_FALSE(fixture.engine.add(continued));
    std::vector<uint32_t> rest;
    while (fixture.engine.has_work()) {
      for (const NewToken& token : fixture.engine.step().tokens) {
        CHECK(token.index == num_emitted + rest.size());
        rest.push_back(token.token_id);
      }
    }
    CHECK(rest == std::vector<uint32_t>(whole.begin() + num_emitted, whole.end()));
  }
}

TEST_CASE("engine: tokens do not depend on company, chunks, shared blocks, preemption, pauses or cancels") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  uint64_t num_preempted = 0;
  for (uint32_t round = 0; round < 40; ++round) {
    const FakeWindows windows = round % 3 == 0   ? FakeWindows{1 + below(40)}
                                : round % 3 == 1 ? FakeWindows{0, 1 + below(20), 1 + below(10)}
                                                 : FakeWindows{0};
    EngineFixture fixture({.max_num_batched_tokens = 6 + below(30),
                           .max_num_seqs = 1 + below(6),
                           .block_size = 8,
                           .num_blocks = std::max(10u, num_required_blocks(80, 8, windows)) + below(12),
                           .mixed_batches = round % 2 == 0,
                           .mixed_prefill_tokens = 1 + below(10),
                           .windows = windows});
    Engine& engine = fixture.engine;
    Answers answers;
    std::map<uint32_t, Sequence> requests;
    std::vector<uint32_t> cancelled;
    for (uint32_t i = 0; i < 300; ++i) {
      const uint32_t action = below(8);
      const uint32_t request_id = 1 + below(requests.size() + 1);
      if (action == 0 && requests.size() < 25) {
        const auto id = static_cast<uint32_t>(requests.size() + 1);
        // With a window some requests are longer than the cache.
        const uint32_t max_prompt = windows.front() > 0 && below(4) == 0 ? 160 : 50;
        requests[id] = sampled(id, long_prompt(below(3), 1 + below(max_prompt)), 1 + below(30));
        if (below(3) == 0) requests[id].cache_salt = "salt";
        CHECK_FALSE(engine.add(requests[id]));
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
    CHECK(engine.counts().num_finished == requests.size() - cancelled.size());
    CHECK(engine.counts().num_failed == cancelled.size());
  }
  CHECK(num_preempted > 0);
}

TEST_CASE("engine: stop ids are sampled only after min_tokens, also by a resumed request") {
  Sequence request = sampled(1, count_from(1, 20), 60);
  request.stop_ids = count_from(0, 64);
  for (const uint32_t min_tokens : {1u, 2u, 5u, 24u, 25u}) {
    CAPTURE(min_tokens);
    request.min_tokens = min_tokens;
    const std::vector<uint32_t> whole = fake_answer(request);
    REQUIRE(whole.size() > min_tokens);
    for (uint32_t i = 0; i < min_tokens; ++i) CHECK(whole[i] >= 64);
    for (const uint32_t num_emitted : {0u, min_tokens - 1, min_tokens}) {
      EngineFixture fixture(roomy());
      Sequence continued = request;
      continued.token_ids.insert(continued.token_ids.end(), whole.begin(), whole.begin() + num_emitted);
      CHECK_FALSE(fixture.engine.add(continued));
      std::vector<uint32_t> answer(whole.begin(), whole.begin() + num_emitted);
      FinishReason finish_reason = FinishReason::kNone;
      while (fixture.engine.has_work()) {
        for (const NewToken& token : fixture.engine.step().tokens) {
          answer.push_back(token.token_id);
          finish_reason = token.finish_reason;
        }
      }
      CHECK(answer == whole);
      CHECK(finish_reason == FinishReason::kStopId);
    }
  }
}

TEST_CASE("engine: a sample does not depend on the batch or the place in it") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  const auto random_request = [&](uint32_t request_id) {
    Sequence request = sampled(request_id, count_from(below(60), 1 + below(40)), 1 + below(30));
    request.sampling.temperature = below(4) == 0 ? 0.0f : 1.0f;
    request.sampling.top_k = below(2) * below(101);
    request.sampling.min_p = below(2) == 0 ? 0.0f : 0.05f;
    request.sampling.frequency_penalty = below(2) == 0 ? 0.0f : 0.5f;
    request.sampling.seed = below(3);  // some seeds are equal
    if (below(3) == 0) request.sampling.allowed_ids = {5, 6, 7, 8, 20, 30, 50, 51, 52};
    if (below(2) == 0) request.sampling.banned_ids = {5, 99, 100};
    if (below(2) == 0) request.stop_ids = {7, 50};
    request.min_tokens = below(request.max_tokens);
    if (below(2) == 0) request.top_logprobs = below(21);
    if (below(2) == 0) request.prompt_logprobs = below(21);
    return request;
  };
  for (uint32_t round = 0; round < 100; ++round) {
    CAPTURE(round);
    std::vector<Sequence> requests;
    for (uint32_t id = 1; id <= 8; ++id) requests.push_back(random_request(id));
    std::ranges::shuffle(requests, random);
    EngineFixture fixture(roomy());
    for (const Sequence& request : requests) CHECK_FALSE(fixture.engine.add(request));
    Answers answers = run(fixture.engine);
    for (const Sequence& request : requests) CHECK(answers[request.request_id] == fake_answer(request));
  }
}

TEST_CASE("engine: logits that are not finite end their own request only") {
  EngineFixture fixture(roomy());
  fixture.model.poison = 77;
  const Sequence good = sequence_of(1, count_from(1, 20), 5);
  CHECK_FALSE(fixture.engine.add(good));
  CHECK_FALSE(fixture.engine.add(sequence_of(2, {5, 77, 6}, 5)));
  const StepOutput output = fixture.engine.step();
  REQUIRE(output.errors.size() == 1);
  CHECK(output.errors[0].request_id == 2);
  CHECK(output.errors[0].code == ErrorCode::kInferenceFailed);
  CHECK(output.tokens.size() == 1);
  CHECK_FALSE(fixture.engine.contains(2));
  Answers answers;
  collect(output, answers);
  while (fixture.engine.has_work()) collect(fixture.engine.step(), answers);
  CHECK(answers[1] == fake_answer(good));
}

TEST_CASE("engine: a request whose logits fail in several rows of a step fails once") {
  EngineFixture fixture(roomy());
  fixture.model.poison = 77;
  Sequence failing = sequence_of(1, {5, 77, 6, 7, 8}, 5);
  failing.prompt_logprobs = 0;
  CHECK_FALSE(fixture.engine.add(std::move(failing)));
  const StepOutput output = fixture.engine.step();
  CHECK(output.scored.size() == 1);
  REQUIRE(output.errors.size() == 1);
  CHECK(output.errors[0].message == "The logits after token 1 of the request are not all finite numbers.");
  CHECK(output.tokens.empty());
  CHECK(fixture.engine.counts().num_failed == 1);
  CHECK(fixture.engine.num_free_blocks() == 200);
}

TEST_CASE("engine: a request that can never fit is refused, one that just fits is served") {
  const SchedulerConfig small{
      .max_num_batched_tokens = 64, .max_num_seqs = 8, .block_size = 8, .num_blocks = 4};
  EngineFixture fixture(small);
  const auto refused = fixture.engine.add(sequence_of(1, count_from(1, 20), 14));  // 33 stored tokens
  REQUIRE(refused);
  CHECK(refused->code == ErrorCode::kOutOfMemory);
  CHECK(refused->message.find("33 tokens") != std::string::npos);
  CHECK(refused->message.find("holds 32") != std::string::npos);
  const Sequence fits = sequence_of(2, count_from(1, 20), 13);
  CHECK_FALSE(fixture.engine.add(fits));
  CHECK(run(fixture.engine)[2] == fake_answer(fits));
}

TEST_CASE("engine: with a window, requests that are longer than the cache are served, also side by side") {
  // The 16 positions that a row sees lie in at most three blocks.
  const SchedulerConfig windowed{
      .max_num_batched_tokens = 64, .max_num_seqs = 8, .block_size = 8, .num_blocks = 3, .windows = {16}};
  EngineFixture fixture(windowed, 400);
  std::vector<Sequence> requests;
  for (const uint32_t id : {1, 2, 3}) requests.push_back(sampled(id, long_prompt(id, 100 * id), 90));
  for (const Sequence& request : requests) CHECK_FALSE(fixture.engine.add(request));
  Answers answers = run(fixture.engine);
  for (const Sequence& request : requests)
    CHECK(answers[request.request_id] == fake_answer(request, 400, windowed.windows));
  CHECK(fixture.engine.num_free_blocks() == 3);

  SchedulerConfig smaller = windowed;
  smaller.num_blocks = 2;
  EngineFixture too_small(smaller, 400);
  CHECK(too_small.engine.add(sampled(1, count_from(1, 30), 4)));
  CHECK_FALSE(too_small.engine.add(sampled(2, count_from(1, 13), 4)));
}

TEST_CASE("engine: more requests than the limit are refused") {
  EngineFixture fixture(roomy());
  for (uint32_t id = 1; id <= kMaxRequests; ++id) CHECK_FALSE(fixture.engine.add(sequence_of(id, {1}, 1)));
  const auto refused = fixture.engine.add(sequence_of(kMaxRequests + 1, {1}, 1));
  REQUIRE(refused);
  CHECK(refused->code == ErrorCode::kQueueFull);
  CHECK(refused->message == "The runner holds 1024 requests, its limit.");
}

TEST_CASE("engine: prompts of more tokens than the limit are refused, answers do not count") {
  SchedulerConfig scheduler = roomy();
  scheduler.num_blocks = 1u << 18;
  EngineFixture fixture(scheduler, 1u << 21);
  Sequence continued = sequence_of(1, std::vector<uint32_t>(3 << 19, 5), 1 << 20);
  continued.num_prompt_tokens = 1u << 20;
  CHECK_FALSE(fixture.engine.add(continued));
  for (const uint32_t id : {2, 3}) CHECK_FALSE(fixture.engine.add(sequence_of(id, continued.token_ids, 5)));
  const auto refused = fixture.engine.add(sequence_of(4, {1, 2, 3}, 5));
  REQUIRE(refused);
  CHECK(refused->code == ErrorCode::kQueueFull);
  CHECK(refused->message ==
        "The runner holds prompts of 4194304 tokens; with 3 more they would be over its limit, 4194304.");
  CHECK(fixture.engine.cancel(2));
  CHECK_FALSE(fixture.engine.add(sequence_of(4, {1, 2, 3}, 5)));
}

TEST_CASE("engine: only the first token reports its time and its cached prompt tokens") {
  using std::chrono::microseconds;
  EngineFixture fixture(roomy());
  CHECK_FALSE(fixture.engine.add(sequence_of(1, count_from(1, 30), 2)));
  fixture.now += microseconds(7);
  const Plan plan = fixture.engine.schedule();
  fixture.now += microseconds(40);
  const NewToken first = fixture.engine.compute(plan).tokens.at(0);
  REQUIRE(first.first);
  CHECK(first.first->queued == microseconds(7));
  CHECK(first.first->prefill == microseconds(40));
  CHECK(first.first->num_reused_tokens == 0);
  CHECK_FALSE(fixture.engine.step().tokens.at(0).first);
  CHECK(fixture.engine.counts().busy == microseconds(40));

  CHECK_FALSE(fixture.engine.add(sequence_of(2, count_from(1, 30), 2)));
  CHECK(fixture.engine.step().tokens.at(0).first->num_reused_tokens == 24);
  // The first token that this process computes for a continued request is also marked as the first.
  Sequence continued = sequence_of(3, count_from(40, 8), 20);
  continued.num_prompt_tokens = 5;
  CHECK_FALSE(fixture.engine.add(continued));
  bool is_told = false;
  for (const NewToken& token : fixture.engine.step().tokens) is_told |= token.request_id == 3 && token.first;
  CHECK(is_told);
}

}  // namespace runnel
