#include <map>
#include <random>

#include "test/fixtures/engine_fixture.h"

namespace runnel {
namespace {

Sequence embedding_of(uint32_t id, const std::vector<uint32_t>& token_ids, Pooling pooling) {
  Sequence sequence = sequence_of(id, token_ids, 1);
  sequence.pooled = PooledStates(pooling, sequence.num_prompt_tokens);
  return sequence;
}

// The formula of docs/numerics.md, with the fake model's state after each token.
std::vector<float> fake_vector(const std::vector<uint32_t>& ids, Pooling pooling,
                               const FakeWindows& windows = {0}) {
  const auto state_of = [&](size_t index) {
    return fake_state_of(fake_hash(std::span(ids).first(index + 1), windows));
  };
  if (pooling == Pooling::kLast) return state_of(ids.size() - 1);
  if (pooling == Pooling::kCls) return state_of(0);
  if (pooling == Pooling::kRank) return {state_of(0).front()};  // the fake model's classification head
  std::vector<double> sums(kFakeHiddenSize);
  for (size_t index = 0; index < ids.size(); ++index) {
    const std::vector<float> state = state_of(index);
    for (uint32_t i = 0; i < kFakeHiddenSize; ++i) sums[i] += double{state[i]};
  }
  std::vector<float> mean;
  for (const double sum : sums) mean.push_back(static_cast<float>(sum / static_cast<double>(ids.size())));
  return mean;
}

constexpr Pooling kPoolings[] = {Pooling::kLast, Pooling::kMean, Pooling::kCls, Pooling::kRank};

}  // namespace

TEST_CASE("engine: a vector is that of its text, whatever is computed beside it and however") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  uint32_t num_interrupted = 0;
  uint32_t num_shared = 0;
  uint32_t num_recomputed = 0;
  const FakeWindows windows[] = {{0}, {0}, {16}, {0, 5}};
  for (uint32_t round = 0; round < 200; ++round) {
    CAPTURE(round);
    EngineFixture fixture({.max_num_batched_tokens = 6 + below(60),
                           .max_num_seqs = 1 + below(4),
                           .block_size = 8,
                           .num_blocks = 15 + below(3),
                           .mixed_batches = below(4) > 0,
                           .speculation = below(2) > 0,
                           .windows = windows[below(4)]});
    Engine& engine = fixture.engine;
    // Its blocks stay in the cache, and some of the other texts begin in the same way.
    CHECK_FALSE(engine.add(sequence_of(100, count_from(1, 60), 1)));
    (void)run(engine);

    std::map<uint32_t, std::pair<std::vector<uint32_t>, Pooling>> wanted;
    std::map<uint32_t, Sequence> requests;
    for (uint32_t id = 1; id <= 6; ++id) {
      const std::vector<uint32_t> ids = count_from(below(3) > 0 ? 1 : 5, 1 + below(70));
      if (id <= 4) {
        wanted[id] = {ids, kPoolings[below(4)]};
        CHECK_FALSE(engine.add(embedding_of(id, ids, wanted[id].second)));
      } else {
        requests[id] = sampled(id, ids, 20);
        CHECK_FALSE(engine.add(requests[id]));
      }
    }
    std::map<uint32_t, std::vector<float>> vectors;
    Answers answers;
    const auto step = [&] {
      const Plan plan = engine.schedule();
      for (const Sequence* sequence : plan.sequences) {
        const bool is_mean = sequence->pooled && wanted.at(sequence->request_id).second == Pooling::kMean;
        num_recomputed += is_mean && !sequence->pooled->wants(sequence->num_cached_tokens);
      }
      const StepOutput output = engine.compute(plan);
      CHECK(output.errors.empty());
      collect(output, answers);
      for (const Embedded& embedded : output.embedded) {
        CHECK(!vectors.contains(embedded.request_id));
        CHECK(embedded.first.num_reused_tokens < wanted.at(embedded.request_id).first.size());
        num_shared += embedded.first.num_reused_tokens > 0;
        vectors[embedded.request_id] = embedded.values;
      }
      engine.scheduler().check_integrity();
    };
    while (engine.has_work()) {
      step();
      // During a pause in the middle of a text others may take its blocks. The states pooled so far are then
      // computed again.
      const uint32_t request_id = 1 + below(4);
      if (below(3) > 0 || !engine.contains(request_id)) continue;
      engine.pause(request_id);
      ++num_interrupted;
      for (uint32_t i = below(12); i > 0 && engine.has_work(); --i) step();
      engine.resume(request_id);
    }
    for (const auto& [id, text] : wanted)
      CHECK(vectors.at(id) == fake_vector(text.first, text.second, fixture.model.windows));
    for (const auto& [id, request] : requests)
      CHECK(answers.at(id) == fake_answer(request, 200, fixture.model.windows));
    CHECK(engine.num_requests() == 0);
    CHECK(engine.counts().num_finished == 7);
  }
  CHECK(num_interrupted > 0);
  CHECK(num_shared > 0);
  CHECK(num_recomputed > 0);
}

TEST_CASE("engine: a text for a vector may fill the context, and its cache") {
  EngineFixture fixture({.max_num_batched_tokens = 16, .max_num_seqs = 2, .block_size = 8, .num_blocks = 5},
                        /*max_model_len=*/40);
  const std::vector<uint32_t> ids = count_from(1, 40);
  CHECK_FALSE(fixture.engine.add(embedding_of(1, ids, Pooling::kMean)));
  std::vector<float> values;
  while (fixture.engine.has_work())
    for (const Embedded& embedded : fixture.engine.step().embedded) values = embedded.values;
  CHECK(values == fake_vector(ids, Pooling::kMean));
}

TEST_CASE("engine: a vector of the first token ends its request before the rest of the text is computed") {
  EngineFixture fixture({.max_num_batched_tokens = 8, .max_num_seqs = 2, .block_size = 8, .num_blocks = 20});
  const std::vector<uint32_t> ids = count_from(1, 60);
  CHECK_FALSE(fixture.engine.add(embedding_of(1, ids, Pooling::kCls)));
  const StepOutput output = fixture.engine.step();
  REQUIRE(output.embedded.size() == 1);
  CHECK(output.embedded[0].values == fake_vector(ids, Pooling::kCls));
  CHECK_FALSE(fixture.engine.has_work());
  CHECK(fixture.engine.num_free_blocks() == 20);
}

TEST_CASE("engine: hidden states that are no numbers end the request, and nobody else's") {
  EngineFixture fixture(roomy());
  fixture.model.poison = 7;
  const std::vector<uint32_t> healthy = count_from(20, 30);
  CHECK_FALSE(fixture.engine.add(embedding_of(1, count_from(1, 50), Pooling::kMean)));
  CHECK_FALSE(fixture.engine.add(embedding_of(2, healthy, Pooling::kMean)));
  std::vector<RequestError> errors;
  std::vector<Embedded> embedded;
  while (fixture.engine.has_work()) {
    const StepOutput output = fixture.engine.step();
    for (const RequestError& error : output.errors) errors.push_back(error);
    for (const Embedded& one : output.embedded) embedded.push_back(one);
  }
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].request_id == 1);
  CHECK(errors[0].code == ErrorCode::kInferenceFailed);
  CHECK(errors[0].message == "The hidden state of token 6 of the request is not all finite numbers.");
  REQUIRE(embedded.size() == 1);
  CHECK(embedded[0].request_id == 2);
  CHECK(embedded[0].values == fake_vector(healthy, Pooling::kMean));
  CHECK(fixture.engine.counts().num_failed == 1);
}

TEST_CASE("engine: a vector cancelled during its step is not returned, and the others are") {
  const std::vector<uint32_t> ids = count_from(1, 20);
  // At the last call the states are already on the host.
  for (uint32_t call = 1; call <= 4; ++call) {
    CAPTURE(call);
    EngineFixture other(roomy());
    CHECK_FALSE(other.engine.add(embedding_of(1, ids, Pooling::kMean)));
    CHECK_FALSE(other.engine.add(embedding_of(2, ids, Pooling::kMean)));
    uint32_t num_calls = 0;
    const Plan plan = other.engine.schedule();
    const StepOutput output = other.engine.compute(plan, [&] {
      if (++num_calls == call) CHECK(other.engine.cancel(1));
    });
    CHECK(num_calls >= 4);
    REQUIRE(output.embedded.size() == 1);
    CHECK(output.embedded[0].request_id == 2);
    CHECK(output.embedded[0].values == fake_vector(ids, Pooling::kMean));
    CHECK(other.engine.num_requests() == 0);
    CHECK(other.engine.num_free_blocks() == roomy().num_blocks);
  }
}

}  // namespace runnel
