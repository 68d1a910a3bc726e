#include "runner/bench/bench.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "test/fixtures/bench_subject.h"
#include "test/fixtures/fake_model.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct BenchFixture {
  explicit BenchFixture(bool mixed_batches)
      : engine(model, {.max_model_len = 400,
                       .scheduler = {.max_num_batched_tokens = 64,
                                     .max_num_seqs = 4,
                                     .block_size = 16,
                                     .num_blocks = 100,
                                     .mixed_batches = mixed_batches}}) {}

  FakeModel model{16, 100, 64};
  Engine engine;
  std::ostringstream out;
};

BenchFlags flags_of(uint32_t num_generated, uint32_t depth) {
  return {.num_prompt_tokens = 100,
          .num_generated = num_generated,
          .depth = depth,
          .batches = {1, 4},
          .num_repeats = 1,
          .json = true};
}

}  // namespace

TEST_CASE("bench: sequences decode after as many tokens as --depth says") {
  BenchFixture fixture(/*mixed_batches=*/false);
  REQUIRE(bench(fixture.engine, flags_of(8, 200), test::kBenchSubject, fixture.out).ok());
  const auto object = nlohmann::json::parse(fixture.out.str());
  CHECK(object["prefill_tok_s"].get<double>() > 0);
  CHECK(object["decode_tok_s"]["1"].get<double>() > 0);
  CHECK(object["decode_tok_s"]["4"].get<double>() > 0);
  CHECK(object["depth"] == 200);
  // Each runs twice, since the first run does not count: a prompt of 100 tokens in steps of 64; one prompt of
  // 200 and 8 more tokens; four prompts of 200 and 8 more tokens.
  CHECK(fixture.model.num_forwards == 2 * (2 + (4 + 8) + (16 + 8)));
  CHECK(fixture.engine.num_requests() == 0);
}

TEST_CASE("bench: tokens are sampled as its flags say, and the report says how") {
  BenchFixture fixture(/*mixed_batches=*/true);
  BenchFlags flags = flags_of(8, 1);
  flags.sampling = {.temperature = 0.8f, .top_k = 7, .top_p = 0.25f};
  REQUIRE(bench(fixture.engine, flags, test::kBenchSubject, fixture.out).ok());
  const auto object = nlohmann::json::parse(fixture.out.str());
  CHECK(object["temperature"].dump() == "0.8");
  CHECK(object["top_k"] == 7);
  CHECK(object["top_p"] == 0.25);
  flags.sampling.top_p = 2.0f;
  const Result<void> refused = bench(fixture.engine, flags, test::kBenchSubject, fixture.out);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kUsage);
}

TEST_CASE("bench: sequences that never decode together are no figure") {
  BenchFixture fixture(/*mixed_batches=*/true);
  const Result<void> refused = bench(fixture.engine, flags_of(2, 200), test::kBenchSubject, fixture.out);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kUsage);
  CHECK(refused.error().message ==
        "--batch 4 sequences never decoded together: those that began first ended before the last one's "
        "--depth 200 "
        "tokens were computed. --mixed-batches off lets them wait.");
}

TEST_CASE("bench: a workload larger than the context is refused") {
  BenchFixture fixture(/*mixed_batches=*/true);
  const Result<void> refused = bench(fixture.engine, flags_of(100, 300), test::kBenchSubject, fixture.out);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "--prompt 100, and --depth 300 with --generate 100, must each fit into the context of 400 tokens, "
        "with 1 to "
        "spare.");
}

}  // namespace runnel
