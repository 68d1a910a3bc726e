#include "runner/engine.h"

#include <map>
#include <random>

#include "test/fixtures/fake_model.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct Fixture {
  explicit Fixture(SchedulerConfig scheduler, uint32_t max_model_len = 200)
      : model(scheduler.block_size, scheduler.num_blocks, scheduler.max_num_batched_tokens),
        engine(model, {.max_model_len = max_model_len, .scheduler = scheduler}, [this] { return now; }) {
    model.window = scheduler.window;
  }

  FakeModel model;
  std::chrono::steady_clock::time_point now{};
  Engine engine;
};

SchedulerConfig roomy() {
  return {.max_num_batched_tokens = 64, .max_num_seqs = 8, .block_size = 8, .num_blocks = 200};
}

using Answers = std::map<uint32_t, std::vector<uint32_t>>;

void collect(const StepOutput& output, Answers& answers) {
  for (const NewToken& token : output.tokens) {
    auto& answer = answers[token.request_id];
    CHECK(token.index == answer.size());
    answer.push_back(token.token_id);
  }
}

Answers run(Engine& engine) {
  Answers answers;
  while (engine.has_work()) collect(engine.step(), answers);
  return answers;
}

Sequence sampled(uint32_t request_id, std::vector<uint32_t> prompt, uint32_t max_tokens) {
  Sequence sequence = sequence_of(request_id, std::move(prompt), max_tokens);
  sequence.sampling = {.temperature = 0.9f, .top_p = 0.95f, .repetition_penalty = 1.1f, .seed = request_id};
  return sequence;
}

}  // namespace

TEST_CASE("engine: a request's tokens are those of its own logits") {
  Fixture fixture(roomy());
  const Sequence request = sampled(1, count_from(1, 20), 30);
  CHECK_FALSE(fixture.engine.add(request));
  CHECK(run(fixture.engine)[1] == fake_answer(request));
  CHECK(fixture.engine.num_requests() == 0);
  CHECK(fixture.engine.num_free_blocks() == 200);
}

TEST_CASE("engine: ends at a stop id, at max_tokens and at the end of the context, and says which") {
  Fixture fixture(roomy(), 40);
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
    Fixture fixture(roomy());
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
    const uint32_t window = round % 3 == 0 ? 1 + below(40) : 0;
    Fixture fixture({.max_num_batched_tokens = 6 + below(30),
                     .max_num_seqs = 1 + below(6),
                     .block_size = 8,
                     .num_blocks = 10 + below(12),
                     .mixed_batches = round % 2 == 0,
                     .mixed_prefill_tokens = 1 + below(10),
                     .window = window});
    Engine& engine = fixture.engine;
    Answers answers;
    std::map<uint32_t, Sequence> requests;
    std::vector<uint32_t> cancelled;
    for (uint32_t i = 0; i < 300; ++i) {
      const uint32_t action = below(8);
      const uint32_t request_id = 1 + below(requests.size() + 1);
      if (action == 0 && requests.size() < 25) {
        const auto id = static_cast<uint32_t>(requests.size() + 1);
        requests[id] = sampled(id, count_from(below(3), 1 + below(50)), 1 + below(30));
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
      std::vector<uint32_t> expected = fake_answer(request, 200, window);
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

TEST_CASE("engine: log-probabilities change no token, and scoring gives the same bits as generating") {
  Fixture fixture(roomy());
  Sequence request = sampled(1, count_from(1, 20), 30);
  request.top_logprobs = 5;
  CHECK_FALSE(fixture.engine.add(request));
  std::vector<NewToken> generated;
  while (fixture.engine.has_work())
    for (const NewToken& token : fixture.engine.step().tokens) generated.push_back(token);
  const std::vector<uint32_t> answer = fake_answer(request);
  REQUIRE(generated.size() == answer.size());

  Sequence scored = sequence_of(2, request.token_ids, 1);
  scored.token_ids.insert(scored.token_ids.end(), answer.begin(), answer.end());
  scored.num_prompt_tokens = scored.num_tokens();
  scored.prompt_logprobs = 5;
  CHECK_FALSE(fixture.engine.add(scored));
  std::map<uint32_t, TokenLogprobs> of_index;
  while (fixture.engine.has_work())
    for (const ScoredToken& score : fixture.engine.step().scored) of_index[score.index] = score.logprobs;

  CHECK(of_index.size() == 49);
  for (uint32_t i = 0; i < answer.size(); ++i) {
    CHECK(generated[i].token_id == answer[i]);
    const TokenLogprobs& score = of_index.at(20 + i);
    CHECK(generated[i].logprobs->logprob == score.logprob);
    CHECK(generated[i].logprobs->top_ids == score.top_ids);
    CHECK(generated[i].logprobs->top_logprobs == score.top_logprobs);
  }
}

TEST_CASE("engine: stop ids are drawn only after min_tokens, also by a request that is continued") {
  Sequence request = sampled(1, count_from(1, 20), 60);
  request.stop_ids = count_from(0, 64);
  for (const uint32_t min_tokens : {1u, 2u, 5u, 24u, 25u}) {
    CAPTURE(min_tokens);
    request.min_tokens = min_tokens;
    const std::vector<uint32_t> whole = fake_answer(request);
    REQUIRE(whole.size() > min_tokens);
    for (uint32_t i = 0; i < min_tokens; ++i) CHECK(whole[i] >= 64);
    for (const uint32_t num_emitted : {0u, min_tokens - 1, min_tokens}) {
      Fixture fixture(roomy());
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

TEST_CASE("engine: a draw does not depend on what its neighbours ask for, nor on its place among them") {
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
    request.sampling.seed = below(3);  // equal ones too
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
    Fixture fixture(roomy());
    for (const Sequence& request : requests) CHECK_FALSE(fixture.engine.add(request));
    Answers answers = run(fixture.engine);
    for (const Sequence& request : requests) CHECK(answers[request.request_id] == fake_answer(request));
  }
}

TEST_CASE(
    "engine: each score of a prompt is told once, in order, before the first token, with the same bits") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  uint32_t num_interrupted = 0;
  for (uint32_t round = 0; round < 100; ++round) {
    CAPTURE(round);
    Fixture fixture({.max_num_batched_tokens = 6 + below(60),
                     .max_num_seqs = 1 + below(4),
                     .block_size = 8,
                     .num_blocks = 12 + below(10)});
    Engine& engine = fixture.engine;
    // Its blocks stay known, and must not keep rows of the next ones from being computed.
    CHECK_FALSE(engine.add(sequence_of(100, count_from(1, 60), 1)));
    (void)run(engine);

    std::map<uint32_t, Sequence> requests;
    for (uint32_t id = 1; id <= 4; ++id) {
      Sequence request = sampled(id, count_from(1, 2 + below(60)), 30);
      const std::vector<uint32_t> answer = fake_answer(request);
      request.token_ids.insert(request.token_ids.end(), answer.begin(), answer.begin() + below(30));
      if (id < 4) request.prompt_logprobs = below(21);
      requests[id] = request;
      CHECK_FALSE(engine.add(request));
    }
    std::map<uint32_t, uint32_t> num_told;
    std::map<uint32_t, std::vector<uint32_t>> answers;
    while (engine.has_work()) {
      const Plan plan = engine.schedule();
      const StepOutput output = engine.compute(plan);
      for (const ScoredToken& score : output.scored) {
        const Sequence& request = requests.at(score.request_id);
        CHECK(score.index == ++num_told[score.request_id]);
        CHECK(answers[score.request_id].empty());
        const auto before = std::span(request.token_ids).first(score.index);
        const TokenLogprobs expected =
            compute_logprobs(fake_logits(before), request.token_ids[score.index], *request.prompt_logprobs);
        CHECK(score.logprobs.logprob == expected.logprob);
        CHECK(score.logprobs.top_ids == expected.top_ids);
        CHECK(score.logprobs.top_logprobs == expected.top_logprobs);
      }
      for (const NewToken& token : output.tokens) {
        const Sequence& request = requests.at(token.request_id);
        CHECK(num_told[token.request_id] == (request.prompt_logprobs ? request.num_prompt_tokens - 1 : 0));
        answers[token.request_id].push_back(token.token_id);
      }
      // A pause in the middle of a prompt lets others take its blocks: what was told is computed again.
      const uint32_t request_id = 1 + below(4);
      if (below(3) > 0 || !engine.contains(request_id)) continue;
      const uint32_t num_wanted = requests.at(request_id).num_prompt_tokens - 1;
      num_interrupted += num_told[request_id] > 0 && num_told[request_id] < num_wanted;
      engine.pause(request_id);
      for (uint32_t i = below(6); i > 0 && engine.has_work(); --i) {
        const StepOutput meanwhile = engine.step();
        for (const ScoredToken& score : meanwhile.scored) CHECK(score.index == ++num_told[score.request_id]);
        for (const NewToken& token : meanwhile.tokens) answers[token.request_id].push_back(token.token_id);
      }
      engine.resume(request_id);
    }
    for (const auto& [id, request] : requests) {
      const std::vector<uint32_t> expected = fake_answer(request);
      CHECK(answers[id] == std::vector(expected.begin() + request.num_generated(), expected.end()));
    }
  }
  CHECK(num_interrupted > 0);
}

TEST_CASE("engine: logits that are not finite end their own request only") {
  Fixture fixture(roomy());
  fixture.model.poison = 77;
  const Sequence good = sequence_of(1, count_from(1, 20), 5);
  CHECK_FALSE(fixture.engine.add(good));
  CHECK_FALSE(fixture.engine.add(sequence_of(2, {5, 77, 6}, 5)));
  const StepOutput output = fixture.engine.step();
  REQUIRE(output.errors.size() == 1);
  CHECK(output.errors[0].request_id == 2);
  CHECK(output.errors[0].code == wire::ERROR_CODE_INFERENCE_FAILED);
  CHECK(output.tokens.size() == 1);
  CHECK_FALSE(fixture.engine.contains(2));
  Answers answers;
  collect(output, answers);
  while (fixture.engine.has_work()) collect(fixture.engine.step(), answers);
  CHECK(answers[1] == fake_answer(good));
}

TEST_CASE("engine: a request that can never fit is refused, one that just fits is served") {
  const SchedulerConfig small{
      .max_num_batched_tokens = 64, .max_num_seqs = 8, .block_size = 8, .num_blocks = 4};
  Fixture fixture(small);
  const auto refused = fixture.engine.add(sequence_of(1, count_from(1, 20), 14));  // 33 stored tokens
  REQUIRE(refused);
  CHECK(refused->code == wire::ERROR_CODE_OUT_OF_MEMORY);
  CHECK(refused->message.find("33 tokens") != std::string::npos);
  CHECK(refused->message.find("holds 32") != std::string::npos);
  const Sequence fits = sequence_of(2, count_from(1, 20), 13);
  CHECK_FALSE(fixture.engine.add(fits));
  CHECK(run(fixture.engine)[2] == fake_answer(fits));
}

TEST_CASE("engine: more requests than the limit are refused") {
  Fixture fixture(roomy());
  for (uint32_t id = 1; id <= kMaxRequests; ++id) CHECK_FALSE(fixture.engine.add(sequence_of(id, {1}, 1)));
  const auto refused = fixture.engine.add(sequence_of(kMaxRequests + 1, {1}, 1));
  REQUIRE(refused);
  CHECK(refused->code == wire::ERROR_CODE_QUEUE_FULL);
  CHECK(refused->message == "The runner holds 1024 requests, its limit.");
}

TEST_CASE("engine: prompts of more tokens than the limit are refused, answers do not count") {
  SchedulerConfig scheduler = roomy();
  scheduler.num_blocks = 1u << 18;
  Fixture fixture(scheduler, 1u << 21);
  Sequence continued = sequence_of(1, std::vector<uint32_t>(3 << 19, 5), 1 << 20);
  continued.num_prompt_tokens = 1u << 20;
  CHECK_FALSE(fixture.engine.add(continued));
  for (const uint32_t id : {2, 3}) CHECK_FALSE(fixture.engine.add(sequence_of(id, continued.token_ids, 5)));
  const auto refused = fixture.engine.add(sequence_of(4, {1, 2, 3}, 5));
  REQUIRE(refused);
  CHECK(refused->code == wire::ERROR_CODE_QUEUE_FULL);
  CHECK(refused->message ==
        "The runner holds prompts of 4194304 tokens; with 3 more they would be over its limit, 4194304.");
  CHECK(fixture.engine.cancel(2));
  CHECK_FALSE(fixture.engine.add(sequence_of(4, {1, 2, 3}, 5)));
}

TEST_CASE("engine: a sequence cancelled in the middle of a step loses its rows at the end of the batch") {
  for (const uint32_t cancelled : {1u, 2u, 3u}) {
    CAPTURE(cancelled);
    Fixture fixture(roomy());
    std::vector<Sequence> requests;
    for (uint32_t id = 1; id <= 3; ++id) requests.push_back(sampled(id, count_from(id * 10, 15), 5));
    for (const Sequence& request : requests) CHECK_FALSE(fixture.engine.add(request));
    uint32_t num_calls = 0;
    const StepOutput output = fixture.engine.compute(fixture.engine.schedule(), [&] {
      // Twice in one step: the second finds nothing any more. Blocks that may be written to are not free.
      const uint32_t num_free = fixture.engine.num_free_blocks();
      CHECK(fixture.engine.cancel(cancelled) == (num_calls++ == 0));
      CHECK(fixture.engine.num_free_blocks() == num_free);
    });
    CHECK(num_calls == 3);
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
    Fixture fixture(roomy());
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
  // 100 scores and a token take four groups of logits. The other request, which has its token in the first
  // of them, is cancelled as well, or goes on.
  for (const bool both : {false, true}) {
    for (const uint32_t cancelled_at : {1u, kNumLayerCalls, kNumLayerCalls + 1, kNumLayerCalls + 3}) {
      CAPTURE(both);
      CAPTURE(cancelled_at);
      SchedulerConfig scheduler = roomy();
      scheduler.max_num_batched_tokens = scheduler.mixed_prefill_tokens = 128;
      Fixture fixture(scheduler);
      Engine& engine = fixture.engine;
      const Sequence other = sampled(1, count_from(50, 10), 2);
      Answers answers;
      CHECK_FALSE(engine.add(other));
      collect(engine.step(), answers);
      Sequence scored = sampled(2, count_from(1, 101), 5);
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
      // Nor is its prompt remembered, whenever in the step it was cancelled.
      CHECK(engine.scheduler().blocks().num_reusable_blocks() == 1);
    }
  }
}

TEST_CASE("engine: the first token, and it alone, tells how long it took and what was not computed for it") {
  using std::chrono::microseconds;
  Fixture fixture(roomy());
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
  // A continued one has its first token of this process too.
  Sequence continued = sequence_of(3, count_from(40, 8), 20);
  continued.num_prompt_tokens = 5;
  CHECK_FALSE(fixture.engine.add(continued));
  bool is_told = false;
  for (const NewToken& token : fixture.engine.step().tokens) is_told |= token.request_id == 3 && token.first;
  CHECK(is_told);
}

}  // namespace runnel
