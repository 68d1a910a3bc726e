// The whole forward pass against logits of an implementation of its own in double precision
// (test/golden/make_tiny_llama.py).
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "test/cpu-runner/cpu_harness.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// Single precision alone makes differences of some 1e-6. What is larger comes from the cache: a key or value
// that lies next to the middle of two halves is rounded one way by the float sum and the other way by the
// double one, and is then off by 2^-11 of itself. That happens to one or two of a file's 8,960 and moves
// later logits by up to 3e-4; a wrong rotation, mask or scale moves them by 0.1 and more. The F32
// cache has no such middles, and no value of the file with a Q8_0 cache is near one.
struct Tolerance {
  double max;
  double mean;
};
constexpr Tolerance kF16{5e-4, 3e-5};
constexpr Tolerance kF16OfF32Weights{1e-4, 3e-5};
constexpr Tolerance kSinglePrecision{1e-5, 1e-6};

void compare(const std::string& name, const Tolerance& allowed, KvType kv_type = KvType::kF16) {
  const std::string logits_name =
      kv_type == KvType::kF16 ? "logits" : "logits_" + std::string(kv_type_name(kv_type));
  const std::string path = std::string(RUNNEL_SOURCE_DIR) + "/test/golden/tiny-llama-" + name;
  std::ifstream stream(path + ".json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  test::CpuHarness harness(path + ".gguf", {.kv_type = kv_type});
  const auto logits = harness.run(golden["ids"].get<std::vector<uint32_t>>(), 256);
  double sum = 0.0;
  double max = 0.0;
  size_t count = 0;
  for (size_t i = 0; i < golden["positions"].size(); ++i) {
    const std::vector<float>& row = logits[golden["positions"][i].get<size_t>()];
    REQUIRE(row.size() == golden[logits_name][i].size());
    for (size_t id = 0; id < row.size(); ++id, ++count) {
      const double difference = std::abs(row[id] - golden[logits_name][i][id].get<double>());
      sum += difference;
      max = std::max(max, difference);
    }
  }
  CAPTURE(max);
  CAPTURE(sum / static_cast<double>(count));
  CHECK(max <= allowed.max);
  CHECK(sum / static_cast<double>(count) <= allowed.mean);
}

TEST_CASE("logits of the F32 model are those of the independent reference") {
  compare("f32", kF16OfF32Weights);
}
TEST_CASE("logits of the F16 model are those of the independent reference") {
  compare("f16", kF16);
}
TEST_CASE("logits of the Q4_0 model are those of the independent reference") {
  compare("q4_0", kF16);
}
TEST_CASE("logits of the Q4_1 model are those of the independent reference") {
  compare("q4_1", kF16);
}
TEST_CASE(
    "logits of the Q8_0 model, which has an output matrix of its own, are those of the independent "
    "reference") {
  compare("q8_0", kF16);
}

TEST_CASE("with an F32 cache there is nothing but single precision between the two") {
  compare("f32", kSinglePrecision, KvType::kF32);
  compare("window", kSinglePrecision, KvType::kF32);
}
TEST_CASE("logits of the model with biases are those of the independent reference") {
  compare("biased", kSinglePrecision, KvType::kF32);
}
TEST_CASE("logits of the model with a window are those of the independent reference, for each cache") {
  compare("window", kF16);
  compare("window", kSinglePrecision, KvType::kQ8_0);
}

}  // namespace
}  // namespace runnel
