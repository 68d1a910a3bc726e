#include "runner/bench/workload_bench.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "test/fixtures/bench_subject.h"
#include "test/fixtures/fake_model.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct WorkloadFixture {
  explicit WorkloadFixture(uint32_t max_model_len = 2048)
      : config{.max_model_len = max_model_len,
               .scheduler = {
                   .max_num_batched_tokens = 256, .max_num_seqs = 4, .block_size = 32, .num_blocks = 260}} {}

  EngineConfig config;
  FakeModel model{config.scheduler.block_size, config.scheduler.num_blocks,
                  config.scheduler.max_num_batched_tokens};
  std::ostringstream out;
};

}  // namespace

TEST_CASE("workload bench: has every column, and makes every token of its requests each time") {
  WorkloadFixture fixture;
  const WorkloadFlags flags{.fraction = 0.01, .num_warmups = 1, .num_iterations = 2, .json = true};
  REQUIRE(workload_bench(fixture.model, fixture.config, flags, test::kBenchSubject, fixture.out).ok());
  const auto object = nlohmann::json::parse(fixture.out.str());
  CHECK(object["requests"] == 3);
  CHECK(object["output_tokens"]["min"] == 845 + 312 + 607);
  CHECK(object["output_tokens"]["max"] == 845 + 312 + 607);
  for (const char* column :
       {"total_s", "e2e_tps", "prefill_tps", "decode_tps", "decode_steady_tps", "ttft_ms"}) {
    CAPTURE(column);
    CHECK(object[column]["min"].get<double>() > 0);
    CHECK(object[column]["min"] <= object[column]["median"]);
    CHECK(object[column]["median"] <= object[column]["max"]);
  }
}

TEST_CASE("workload bench: prints a table for people") {
  WorkloadFixture fixture;
  const WorkloadFlags flags{.fraction = 0.001, .num_warmups = 0, .num_iterations = 1};
  REQUIRE(workload_bench(fixture.model, fixture.config, flags, test::kBenchSubject, fixture.out).ok());
  const std::string text = fixture.out.str();
  for (const char* word : {"decode_steady_tps", "median", "845.00", "device: \"fake\""}) {
    CAPTURE(word);
    CHECK(text.find(word) != std::string::npos);
  }
}

TEST_CASE("workload bench: a context too short is refused, not cut to") {
  WorkloadFixture fixture(1800);
  const WorkloadFlags flags{.fraction = 0.01, .num_warmups = 0, .num_iterations = 1};
  const Result<void> refused =
      workload_bench(fixture.model, fixture.config, flags, test::kBenchSubject, fixture.out);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kUsage);
  CHECK(refused.error().message == "Request 1 of the workload has 1809 tokens; the context is 1800.");
}

TEST_CASE("workload bench: a fraction is rounded up to whole requests") {
  CHECK(workload_size(1.0) == 256);
  CHECK(workload_size(0.1) == 26);
  CHECK(workload_size(0.001) == 1);
}

}  // namespace runnel
