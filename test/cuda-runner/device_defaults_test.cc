// What a runner on a GPU does at once unless a flag says otherwise.
#include "cuda-runner/cuda_backend.h"
#include "runner/commands/loaded_model.h"
#include "test/fixtures/sequences.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

struct DefaultsFixture {
  DefaultsFixture() {
    flags.set_gpu_defaults();
    flags.model = file.path();
    loaded.emplace(load(flags, *make_cuda_backend(flags.backend_options()), [](uint64_t, uint64_t) {}));
  }

  Plan step_of(uint32_t num_requests, uint32_t num_prompt_tokens) {
    for (uint32_t i = 0; i < num_requests; ++i) {
      const std::vector<uint32_t> prompt(num_prompt_tokens, 1 + next_id % 60);
      CHECK_FALSE((*loaded)->engine->add(sequence_of(next_id++, prompt, 100)));
    }
    return (*loaded)->engine->schedule();
  }

  TemporaryFile file{write_tiny_llama({.context = 1024}).bytes()};
  EngineFlags flags;
  std::optional<Result<LoadedModel>> loaded;
  uint32_t next_id = 1;
};

TEST_CASE_FIXTURE(DefaultsFixture, "GPU defaults: 256 requests take part in a step") {
  REQUIRE(loaded->ok());
  CHECK(step_of(300, 2).sequences.size() == 256);
}

TEST_CASE_FIXTURE(DefaultsFixture, "GPU defaults: the tokens of all sequences of a step come from one head") {
  REQUIRE(loaded->ok());
  const Plan plan = step_of(256, 2);
  uint32_t num_calls = 0;
  const StepOutput output = (*loaded)->engine->compute(plan, [&] { ++num_calls; });
  CHECK(output.tokens.size() == 256);
  // Between two layers each, and once before the wait for the head.
  CHECK(num_calls == (*loaded)->model->config().num_layers - 1 + 1);
}

TEST_CASE_FIXTURE(DefaultsFixture, "GPU defaults: a prompt beside a single stream gets most of 256 rows") {
  REQUIRE(loaded->ok());
  Engine& engine = *(*loaded)->engine;
  engine.compute(step_of(1, 1));
  const Plan plan = step_of(1, 600);
  REQUIRE(plan.num_decoding == 1);
  REQUIRE(plan.sequences.size() == 2);
  CHECK(plan.sequences[1]->num_scheduled_tokens > 200);
  CHECK(plan.sequences[1]->num_scheduled_tokens <= 256);
}

}  // namespace
}  // namespace runnel
