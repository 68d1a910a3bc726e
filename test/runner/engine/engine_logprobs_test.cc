#include <map>
#include <random>

#include "test/fixtures/engine_fixture.h"

namespace runnel {

TEST_CASE("engine: log-probabilities change no token, and scoring gives the same bits as generating") {
  EngineFixture fixture(roomy());
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

TEST_CASE("engine: prompt scores come once, in order, bit-identical, before the first token") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  uint32_t num_interrupted = 0;
  for (uint32_t round = 0; round < 100; ++round) {
    CAPTURE(round);
    EngineFixture fixture({.max_num_batched_tokens = 6 + below(60),
                           .max_num_seqs = 1 + below(4),
                           .block_size = 8,
                           .num_blocks = 12 + below(10)});
    Engine& engine = fixture.engine;
    // Its blocks stay in the cache. The rows of the next requests must be computed all the same.
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
      // During a pause in the middle of a prompt others may take its blocks. The rows scored so far are then
      // computed again.
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

}  // namespace runnel
