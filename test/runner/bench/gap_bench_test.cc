#include "runner/bench/gap_bench.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "test/fixtures/bench_subject.h"
#include "test/fixtures/fake_model.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct GapFixture {
  FakeModel model{16, 60, 32};
  Engine engine{
      model,
      {.max_model_len = 500,
       .scheduler = {.max_num_batched_tokens = 32, .max_num_seqs = 4, .block_size = 16, .num_blocks = 60}}};
  std::ostringstream out;
};

}  // namespace

TEST_CASE("gap bench: it measures the gaps around a long prompt and frees its requests") {
  GapFixture fixture;
  const GapFlags flags{.num_prompt_tokens = 400, .num_streams = 3, .json = true};
  REQUIRE(gap_bench(fixture.engine, flags, test::kBenchSubject, fixture.out).ok());
  const auto object = nlohmann::json::parse(fixture.out.str());
  const auto& after = object["gap_after_ms"];
  CHECK(object["gap_before_ms"].get<double>() > 0);
  CHECK(after["p50"].get<double>() > 0);
  CHECK(after["p50"] <= after["p99"]);
  CHECK(after["p99"] <= after["max"]);
  CHECK(object["p99_to_median_before"].get<double>() ==
        doctest::Approx(after["p99"].get<double>() / object["gap_before_ms"].get<double>()));
  CHECK(object["prompt_ttft_ms"].get<double>() > 0);
  CHECK(object["streams"] == 3);
  CHECK(fixture.engine.num_requests() == 0);
  CHECK(fixture.engine.num_free_blocks() == 60);
}

TEST_CASE("gap bench: a workload that does not fit is refused with needed and available sizes") {
  GapFixture fixture;
  const auto message_of = [&](const GapFlags& flags) {
    const Result<void> refused = gap_bench(fixture.engine, flags, test::kBenchSubject, fixture.out);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().exit_code == ExitCode::kUsage);
    return refused.error().message;
  };
  CHECK(message_of({.num_prompt_tokens = 500, .num_streams = 1}).find("context is 500") != std::string::npos);
  CHECK(message_of({.num_prompt_tokens = 400, .num_streams = 8}) ==
        "--long-prompt 400 with --streams 8 needs 1112 tokens of KV cache; it holds 960, and the context is "
        "500.");
}

}  // namespace runnel
