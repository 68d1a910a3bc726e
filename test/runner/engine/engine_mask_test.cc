// Sequences with a mask in the engine: the drawn ids, the time at which the mask is filled, and the end.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runner/sampling/id_bits.h"
#include "test/fixtures/engine_fixture.h"
#include "test/fixtures/engine_masks.h"

namespace runnel {
namespace {

using test::EveryThird;
using test::masked;
using test::masked_answer;

// Allows no id, and sets the bits after the last one.
class OnlyPadding final : public TokenMask {
 public:
  Result<void> fill(std::span<const uint32_t>, std::span<uint32_t> allowed_bits) override {
    std::ranges::fill(allowed_bits, 0);
    for (uint32_t id = kFakeVocabSize; id < 32 * allowed_bits.size(); ++id) set_id(allowed_bits, id, true);
    return {};
  }
};

RequestError only_error(Engine& engine) {
  while (engine.has_work()) {
    const StepOutput output = engine.step();
    if (!output.errors.empty()) return output.errors.at(0);
  }
  return {0, ErrorCode::kQueueFull, "none"};
}

TEST_CASE("engine masks: each token is one that the mask allows after those before it") {
  EngineFixture fixture(roomy());
  Answers expected;
  for (uint32_t id = 1; id <= 6; ++id) {
    Sequence sequence = id % 3 == 0 ? sampled(id, count_from(1, 10), 30) : masked(id);
    expected[id] = sequence.mask ? masked_answer(sequence) : fake_answer(sequence);
    CHECK_FALSE(fixture.engine.add(std::move(sequence)));
  }
  CHECK(run(fixture.engine) == expected);
}

TEST_CASE("engine masks: an answer that is continued anywhere gets the tokens that it would have got") {
  const std::vector<uint32_t> whole = masked_answer(masked(1));
  for (uint32_t num_emitted = 0; num_emitted < whole.size(); ++num_emitted) {
    EngineFixture fixture(roomy());
    CHECK_FALSE(fixture.engine.add(masked(1, 30, {whole.begin(), whole.begin() + num_emitted})));
    std::vector<uint32_t> rest;
    while (fixture.engine.has_work())
      for (const NewToken& token : fixture.engine.step().tokens) rest.push_back(token.token_id);
    CHECK(rest == std::vector<uint32_t>(whole.begin() + num_emitted, whole.end()));
  }
}

TEST_CASE("engine masks: a preempted request with a mask keeps its output") {
  SchedulerConfig tight{.max_num_batched_tokens = 64, .max_num_seqs = 8, .block_size = 8, .num_blocks = 8};
  EngineFixture fixture(tight);
  Answers expected;
  for (uint32_t id = 1; id <= 4; ++id) {
    expected[id] = masked_answer(masked(id));
    CHECK_FALSE(fixture.engine.add(masked(id)));
  }
  CHECK(run(fixture.engine) == expected);
  CHECK(fixture.engine.scheduler().counts().num_preemptions > 0);
}

TEST_CASE("engine masks: a sequence with one has no drafts from its own text") {
  SchedulerConfig scheduler = roomy();
  scheduler.speculation = true;
  EngineFixture fixture(scheduler);
  Sequence sequence = masked(1, 60);
  sequence.sampling.allowed_ids = {0, 3};
  const std::vector<uint32_t> expected = masked_answer(sequence);
  CHECK_FALSE(fixture.engine.add(std::move(sequence)));
  CHECK(run(fixture.engine)[1] == expected);
  CHECK(fixture.engine.scheduler().counts().num_drafts == 0);
}

TEST_CASE("engine masks: ids excluded by lists or min_tokens are not sampled; an empty set is an error") {
  EngineFixture fixture(roomy());
  Sequence sequence = masked(1);
  sequence.sampling.allowed_ids = {0, 1, 3};
  sequence.sampling.banned_ids = {0};
  sequence.stop_ids = {3};
  sequence.min_tokens = 5;
  CHECK_FALSE(fixture.engine.add(std::move(sequence)));
  const RequestError error = only_error(fixture.engine);
  CHECK(error.code == ErrorCode::kGrammarFailed);
  CHECK(error.message ==
        "After 0 tokens of the answer the grammar allows nothing that may be drawn. Spellings of the "
        "vocabulary, "
        "banned_token_ids, allowed_token_ids or min_tokens exclude it.");
  CHECK(fixture.engine.num_requests() == 0);
}

TEST_CASE("engine masks: bits after the last id are ignored, so such a mask is empty") {
  EngineFixture fixture(roomy());
  Sequence sequence = masked(1);
  sequence.mask = std::make_shared<OnlyPadding>();
  CHECK_FALSE(fixture.engine.add(std::move(sequence)));
  CHECK(only_error(fixture.engine).code == ErrorCode::kGrammarFailed);
}

TEST_CASE("engine masks: a failing mask ends only its own request") {
  EngineFixture fixture(roomy());
  Sequence failing = masked(1);
  failing.mask = std::make_shared<EveryThird>(7);
  CHECK_FALSE(fixture.engine.add(std::move(failing)));
  const std::vector<uint32_t> expected = masked_answer(masked(2));
  CHECK_FALSE(fixture.engine.add(masked(2)));
  Answers answers;
  std::vector<RequestError> errors;
  while (fixture.engine.has_work()) {
    const StepOutput output = fixture.engine.step();
    collect(output, answers);
    errors.insert(errors.end(), output.errors.begin(), output.errors.end());
  }
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].request_id == 1);
  CHECK(errors[0].message == "It fails here.");
  CHECK(answers[1].size() == 7);
  CHECK(answers[2] == expected);
}

}  // namespace
}  // namespace runnel
