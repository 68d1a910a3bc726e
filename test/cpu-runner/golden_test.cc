// The whole forward pass against logits of an implementation of its own in double precision
// (test/golden/make_tiny_llama.py).
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "test/cpu-runner/model_harness.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// Single precision alone makes differences of some 1e-6. What is larger comes from the cache: a key or value
// that lies next to the middle of two halves is rounded one way by the float sum and the other way by the
// double one, and is then off by 2^-11 of itself. That happens to one or two of a file's 8,960 and moves
// later logits by up to 3e-4; a wrong rotation, mask or scale moves them by 0.1 and more.
constexpr double kMaxDifference = 5e-4;
constexpr double kMaxDifferenceF32 = 1e-4;
constexpr double kMaxMeanDifference = 3e-5;

void compare(const std::string& name, double max_allowed) {
  const std::string path = std::string(RUNNEL_SOURCE_DIR) + "/test/golden/tiny-llama-" + name;
  std::ifstream stream(path + ".json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  test::ModelHarness harness(path + ".gguf", {});
  const auto logits = harness.run(golden["ids"].get<std::vector<uint32_t>>(), 256);
  double sum = 0.0;
  double max = 0.0;
  size_t count = 0;
  for (size_t i = 0; i < golden["positions"].size(); ++i) {
    const std::vector<float>& row = logits[golden["positions"][i].get<size_t>()];
    REQUIRE(row.size() == golden["logits"][i].size());
    for (size_t id = 0; id < row.size(); ++id, ++count) {
      const double difference = std::abs(row[id] - golden["logits"][i][id].get<double>());
      sum += difference;
      max = std::max(max, difference);
    }
  }
  CAPTURE(max);
  CAPTURE(sum / static_cast<double>(count));
  CHECK(max <= max_allowed);
  CHECK(sum / static_cast<double>(count) <= kMaxMeanDifference);
}

TEST_CASE("logits of the F32 model are those of the independent reference") {
  compare("f32", kMaxDifferenceF32);
}
TEST_CASE("logits of the F16 model are those of the independent reference") {
  compare("f16", kMaxDifference);
}
TEST_CASE("logits of the Q4_0 model are those of the independent reference") {
  compare("q4_0", kMaxDifference);
}
TEST_CASE("logits of the Q4_1 model are those of the independent reference") {
  compare("q4_1", kMaxDifference);
}
TEST_CASE(
    "logits of the Q8_0 model, which has an output matrix of its own, are those of the independent "
    "reference") {
  compare("q8_0", kMaxDifference);
}

}  // namespace
}  // namespace runnel
