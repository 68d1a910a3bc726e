// Drafts from the guesses of masks. The tokens are those of plain steps, whatever is guessed.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "test/fixtures/engine_fixture.h"
#include "test/fixtures/engine_masks.h"

namespace runnel {
namespace {

using test::EveryThird;
using test::FewIds;
using test::masked_answer;

Sequence with_mask(uint32_t request_id, std::shared_ptr<TokenMask> mask, uint32_t max_tokens = 64) {
  Sequence sequence = sampled(request_id, count_from(request_id, 10), max_tokens);
  sequence.mask = std::move(mask);
  return sequence;
}

// Allows two ids and guesses one that is never drawn, after which it fails.
class WrongGuesses final : public FewIds {
 public:
  WrongGuesses() : FewIds(2) {}
  Result<void> fill(std::span<const uint32_t> generated_ids, std::span<uint32_t> allowed_bits) override {
    if (std::ranges::count(generated_ids, kNeverDrawn) > 0) return Error{ExitCode::kUsage, "It was guessed."};
    return FewIds::fill(generated_ids, allowed_bits);
  }
  std::optional<uint32_t> guess(std::span<const uint32_t>) const override { return kNeverDrawn; }
  static constexpr uint32_t kNeverDrawn = kFakeVocabSize - 1;
};

std::vector<NewToken> tokens_of(Engine& engine) {
  std::vector<NewToken> tokens;
  while (engine.has_work())
    for (NewToken& token : engine.step().tokens) tokens.push_back(std::move(token));
  return tokens;
}

}  // namespace

TEST_CASE("engine guesses: ids that a mask forces are computed several in a step, up to eight") {
  const Sequence request = with_mask(1, std::make_shared<FewIds>());
  const std::vector<uint32_t> expected = masked_answer(request, FewIds());
  EngineFixture plain(roomy());
  CHECK_FALSE(plain.engine.add(request));
  CHECK(run(plain.engine)[1] == expected);
  CHECK(plain.model.num_forwards == 64);
  CHECK(plain.engine.scheduler().counts().num_drafts == 0);

  EngineFixture fixture(speculating());
  CHECK_FALSE(fixture.engine.add(request));
  CHECK(run(fixture.engine)[1] == expected);
  const uint64_t num_accepted = fixture.engine.counts().num_accepted_drafts;
  CHECK(num_accepted == fixture.engine.scheduler().counts().num_drafts);
  CHECK(fixture.model.num_forwards + num_accepted == 64);
  // A step draws the first of nine and guesses the others, and the next step draws these.
  CHECK(fixture.model.num_forwards < 20);
  CHECK(fixture.engine.num_free_blocks() == 200);
}

TEST_CASE("engine guesses: log-probabilities of guessed tokens equal those of plain steps") {
  std::vector<NewToken> of_each[2];
  for (const bool speculates : {false, true}) {
    EngineFixture fixture(speculates ? speculating() : roomy());
    Sequence request = with_mask(1, std::make_shared<FewIds>(1, 3));
    request.top_logprobs = 4;
    CHECK_FALSE(fixture.engine.add(std::move(request)));
    of_each[speculates] = tokens_of(fixture.engine);
  }
  CHECK(std::ranges::count_if(of_each[1], &NewToken::was_draft) > 5);
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

TEST_CASE("engine guesses: an answer ends within its drafts where it ends without them") {
  const std::vector<uint32_t> whole = masked_answer(with_mask(1, std::make_shared<FewIds>()), FewIds());
  for (uint32_t num_tokens = 1; num_tokens < 30; ++num_tokens) {
    CAPTURE(num_tokens);
    const std::vector<uint32_t> expected(whole.begin(), whole.begin() + num_tokens);
    EngineFixture fixture(speculating());
    CHECK_FALSE(fixture.engine.add(with_mask(1, std::make_shared<FewIds>(), num_tokens)));
    CHECK(run(fixture.engine)[1] == expected);
    Sequence stopping = with_mask(1, std::make_shared<FewIds>());
    stopping.stop_ids = {expected.back()};
    CHECK_FALSE(fixture.engine.add(stopping));
    CHECK(run(fixture.engine)[1] == masked_answer(stopping, FewIds()));
    CHECK(fixture.engine.num_free_blocks() == 200);
  }
}

TEST_CASE("engine guesses: an answer that is continued anywhere gets the tokens that it would have got") {
  const std::vector<uint32_t> whole =
      masked_answer(with_mask(1, std::make_shared<FewIds>(2, 2)), FewIds(2, 2));
  for (uint32_t num_emitted = 0; num_emitted < whole.size(); ++num_emitted) {
    EngineFixture fixture(speculating());
    Sequence request = with_mask(1, std::make_shared<FewIds>(2, 2));
    request.token_ids.insert(request.token_ids.end(), whole.begin(), whole.begin() + num_emitted);
    CHECK_FALSE(fixture.engine.add(std::move(request)));
    std::vector<uint32_t> rest;
    for (const NewToken& token : tokens_of(fixture.engine)) rest.push_back(token.token_id);
    CHECK(rest == std::vector<uint32_t>(whole.begin() + num_emitted, whole.end()));
  }
}

TEST_CASE("engine guesses: wrong ones are few, and a mask that fails after one fails for no request") {
  EngineFixture fixture(speculating());
  const auto mask = std::make_shared<FewIds>(20);
  const Sequence request = with_mask(1, mask, 150);
  CHECK_FALSE(fixture.engine.add(request));
  CHECK(run(fixture.engine)[1] == masked_answer(request, FewIds(20)));
  const uint64_t num_drafts = fixture.engine.scheduler().counts().num_drafts;
  const uint64_t num_accepted = fixture.engine.counts().num_accepted_drafts;
  CHECK(num_drafts - num_accepted < 30);
  CHECK(mask->num_fills < 150 + 60);

  Sequence failing = with_mask(2, std::make_shared<WrongGuesses>());
  failing.sampling.banned_ids = {WrongGuesses::kNeverDrawn};
  CHECK_FALSE(fixture.engine.add(failing));
  CHECK(run(fixture.engine)[2] == masked_answer(failing, FewIds(2)));
  CHECK(fixture.engine.counts().num_failed == 0);
}

TEST_CASE("engine guesses: a mask that fails or leaves nothing ends the request after the same tokens") {
  class FailsAt final : public FewIds {
   public:
    explicit FailsAt(size_t size) : size_(size) {}
    Result<void> fill(std::span<const uint32_t> generated_ids, std::span<uint32_t> allowed_bits) override {
      if (generated_ids.size() >= size_) return Error{ExitCode::kUsage, "It fails here."};
      return FewIds::fill(generated_ids, allowed_bits);
    }

   private:
    size_t size_;
  };
  const std::vector<uint32_t> whole = masked_answer(with_mask(1, std::make_shared<FewIds>()), FewIds());
  for (uint32_t size = 0; size < 30; ++size) {
    CAPTURE(size);
    for (const bool is_banned : {false, true}) {
      EngineFixture fixture(speculating());
      Sequence request = with_mask(1, std::make_shared<FailsAt>(is_banned ? 1000 : size));
      if (is_banned) request.sampling.banned_ids = {whole[size]};
      CHECK_FALSE(fixture.engine.add(std::move(request)));
      std::vector<RequestError> errors;
      Answers answers;
      while (fixture.engine.has_work()) {
        const StepOutput output = fixture.engine.step();
        collect(output, answers);
        errors.insert(errors.end(), output.errors.begin(), output.errors.end());
      }
      const auto end = is_banned ? std::ranges::find(whole, whole[size]) : whole.begin() + size;
      CHECK(answers[1] == std::vector<uint32_t>(whole.begin(), end));
      REQUIRE(errors.size() == 1);
      CHECK(errors[0].code == ErrorCode::kGrammarFailed);
      const std::string nothing = "After " + std::to_string(end - whole.begin()) + " tokens of the answer";
      CHECK(errors[0].message.starts_with(is_banned ? nothing : "It fails here."));
      CHECK(fixture.engine.num_free_blocks() == 200);
    }
  }
}

TEST_CASE("engine guesses: streams share the rows of a step, and eight fill no masks ahead") {
  for (const uint32_t num_streams : {3u, 8u}) {
    CAPTURE(num_streams);
    SchedulerConfig config = speculating();
    config.max_num_batched_tokens = 100;  // all prompts in one step
    EngineFixture fixture(config);
    Answers expected;
    for (uint32_t id = 1; id <= num_streams; ++id) {
      const Sequence request = with_mask(id, std::make_shared<FewIds>());
      expected[id] = masked_answer(request, FewIds());
      CHECK_FALSE(fixture.engine.add(request));
    }
    Answers answers;
    uint32_t most_drafts = 0;
    size_t most_guesses = 0;
    while (fixture.engine.has_work()) {
      const Plan plan = fixture.engine.schedule();
      uint32_t num_drafts = 0;
      for (const Sequence* sequence : plan.sequences) num_drafts += sequence->num_drafts;
      most_drafts = std::max(most_drafts, num_drafts);
      collect(fixture.engine.compute(plan), answers);
      if (fixture.engine.num_requests() < num_streams) continue;
      for (const Sequence* sequence : plan.sequences)
        most_guesses = std::max(most_guesses, sequence->next_masks.guessed_ids.size());
    }
    CHECK(answers == expected);
    CHECK(most_drafts == (num_streams == 3 ? 3 : 0));
    CHECK((most_guesses > 0) == (num_streams == 3));
  }
}

}  // namespace runnel
