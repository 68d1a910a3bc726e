// nano-vLLM's benchmark through scheduler and engine, with a model that computes almost nothing.
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runner/engine/engine.h"
#include "test/fixtures/fake_model.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kContext = 4096;

std::vector<Sequence> workload() {
  const auto json =
      nlohmann::json::parse(std::ifstream(RUNNEL_SOURCE_DIR "/test/golden/nano-vllm-workload.json"));
  const auto prompt_tokens = json["prompt_tokens"].get<std::vector<uint32_t>>();
  const auto max_tokens = json["max_tokens"].get<std::vector<uint32_t>>();
  REQUIRE(prompt_tokens.size() == max_tokens.size());
  std::vector<Sequence> sequences;
  for (uint32_t i = 0; i < prompt_tokens.size(); ++i) {
    std::vector<uint32_t> prompt = count_from(i, prompt_tokens[i]);
    for (uint32_t& id : prompt) id = id * (i + 7) % kFakeVocabSize;
    prompt[0] = i % kFakeVocabSize;
    prompt[1] = i / kFakeVocabSize;
    sequences.push_back(sequence_of(i + 1, std::move(prompt), max_tokens[i]));
    sequences.back().sampling = {.temperature = 0.6f, .seed = i};
  }
  return sequences;
}

}  // namespace

TEST_CASE("workload: nano-vLLM's 256 requests all get their tokens, whether steps mix or not") {
  const std::vector<Sequence> sequences = workload();
  REQUIRE(sequences.size() == 256);
  const auto total = [&](auto field) {
    return std::transform_reduce(sequences.begin(), sequences.end(), uint64_t{0}, std::plus(), field);
  };
  CHECK(total([](const Sequence& sequence) { return sequence.num_prompt_tokens; }) == 142827);
  CHECK(total([](const Sequence& sequence) { return sequence.max_tokens; }) == 133966);

  for (const bool mixed : {true, false}) {
    CAPTURE(mixed);
    // Too few blocks for all sequences that may run at once.
    constexpr uint32_t kNumBlocks = 1000;
    // With these settings prompts are computed so fast that the cache becomes too small.
    const SchedulerConfig scheduler{
        .block_size = 32, .num_blocks = kNumBlocks, .mixed_batches = mixed, .mixed_prefill_tokens = 32};
    FakeModel model(scheduler.block_size, kNumBlocks, scheduler.max_num_batched_tokens);
    Engine engine(model, {.max_model_len = kContext, .scheduler = scheduler});
    for (const Sequence& sequence : sequences) REQUIRE_FALSE(engine.add(sequence));
    std::vector<std::vector<uint32_t>> answers(sequences.size());
    while (engine.has_work())
      for (const NewToken& token : engine.step().tokens)
        answers[token.request_id - 1].push_back(token.token_id);
    for (size_t i = 0; i < sequences.size(); ++i) CHECK(answers[i].size() == sequences[i].max_tokens);
    for (size_t i = 0; i < sequences.size(); i += 16)
      CHECK(answers[i] == fake_answer(sequences[i], kContext));
    CHECK(engine.num_free_blocks() == kNumBlocks);
    CHECK(engine.counts().num_generated_tokens == 133966);
    CHECK(engine.scheduler().counts().num_preemptions > 0);
    CHECK((engine.scheduler().counts().num_mixed_steps > 0) == mixed);
  }
}

}  // namespace runnel
