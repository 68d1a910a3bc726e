#include "runner/commands/inspect.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "test/fixtures/golden_models.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel::test {
namespace {

std::string inspected(const std::string& path, bool json) {
  std::ostringstream out;
  const BackendFactory none{.kind = "none",
                            .make = [](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
                              return Error{ExitCode::kNoDevice, "There is no device."};
                            }};
  EngineFlags flags;
  flags.model = path;
  REQUIRE(inspect(flags, none, json, out).ok());
  return out.str();
}

nlohmann::json inspected(const GgufWriter& writer) {
  const TemporaryFile file(writer.bytes());
  return nlohmann::json::parse(inspected(file.path(), /*json=*/true));
}

// The parameters of the matrices in the tiny llama's two layers: q and o, k and v, and three feed-forward
// matrices.
constexpr uint64_t kLayerParameters = uint64_t{2} * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96);
constexpr uint64_t kEmbeddingBytes = uint64_t{100} * (64 / 32) * 34;

}  // namespace

TEST_CASE("inspect: a step multiplies with the layers' matrices, and reads an embedding that is the head") {
  const GgufWriter tied = write_tiny_llama({});
  uint64_t bytes = 0;
  for (const WrittenTensor& tensor : tied.tensors) bytes += tensor.data.size();
  const nlohmann::json description = inspected(tied);
  CHECK(description["layer_matrix_parameters"] == kLayerParameters);
  CHECK(description["step_weight_bytes"] == bytes);
}

TEST_CASE("inspect: an embedding with a head beside it is looked up, not read") {
  GgufWriter untied = write_tiny_llama({});
  WrittenTensor head = untied.tensor("token_embd.weight");
  head.name = "output.weight";
  const nlohmann::json before = inspected(untied);
  untied.tensors.push_back(head);
  const nlohmann::json after = inspected(untied);
  CHECK(head.data.size() == kEmbeddingBytes);
  CHECK(after["step_weight_bytes"] == before["step_weight_bytes"]);
  CHECK(after["layer_matrix_parameters"] == kLayerParameters);
}

TEST_CASE("inspect: windows, scaled positions, experts and norms of files and folders are printed") {
  using nlohmann::json;
  const auto layers = [](const std::string& name) {
    return json::parse(inspected(golden_model_path(name), /*json=*/true))["layers"];
  };
  for (const GoldenModel& model : kGoldenModels)
    CHECK(layers(model.name) == layers(model.name + "-f32.gguf"));
  CHECK(layers("qwen2") == json{{"norm", "rms"},
                                {"has_head_norms", false},
                                {"has_output_norms", false},
                                {"positions", "rotary"},
                                {"rope_scaling", nullptr},
                                {"sliding_window", nullptr},
                                {"experts", nullptr}});
  CHECK(layers("gpt2")["norm"] == "layer");
  CHECK(layers("gpt2")["positions"] == "learned");
  CHECK(layers("llama3")["rope_scaling"] == json{{"type", "llama3"}});
  CHECK(layers("phi3")["rope_scaling"]["type"] == "longrope");
  CHECK(layers("phi3")["rope_scaling"]["original_context_length"] == 128);
  CHECK(layers("mistral")["sliding_window"] == json{{"positions", 20}});
  CHECK(layers("gemma3")["rope_scaling"] == json{{"type", "linear"}, {"factor", 8.0}});
  CHECK(layers("gemma3")["sliding_window"] ==
        json{{"positions", 20}, {"global_every", 6}, {"rope_theta", 10'000.0}});
  CHECK(layers("gemma3")["has_head_norms"] == true);
  CHECK(layers("gemma3")["has_output_norms"] == true);
  CHECK(layers("yarn")["rope_scaling"]["type"] == "yarn");
  CHECK(layers("yarn")["rope_scaling"]["factor"] == 4.0);
  CHECK(layers("yarn")["rope_scaling"]["original_context_length"] == 128);
  CHECK(layers("glm4")["has_output_norms"] == true);
  CHECK(layers("gemma2")["sliding_window"] ==
        json{{"positions", 20}, {"global_every", 2}, {"rope_theta", 10'000.0}});
  CHECK(layers("gpt-oss")["sliding_window"] ==
        json{{"positions", 20}, {"global_every", 2}, {"rope_theta", 10'000.0}});
  CHECK(layers("gpt-oss")["experts"] == json{{"count", 5}, {"used", 2}, {"ffn_size", 96}});
  CHECK(layers("mixtral")["experts"] == json{{"count", 5}, {"used", 2}, {"ffn_size", 96}});
  CHECK(layers("qwen3moe")["experts"] == json{{"count", 6}, {"used", 3}, {"ffn_size", 32}});
  const std::string lines = inspected(golden_model_path("qwen3moe"), /*json=*/false);
  CHECK(lines.find("\nnorm: rms\nhas_head_norms: true\n") != std::string::npos);
  CHECK(lines.find("\nexperts: {\"count\":6,\"used\":3,\"ffn_size\":32}\n") != std::string::npos);
}

TEST_CASE("inspect: the reason why a model cannot be served is printed with its details") {
  const nlohmann::json description = inspected(write_tiny_llama({}));
  CHECK(description["obstacle"] == "There is no device.");
  CHECK(!description.contains("memory_bytes"));
  CHECK(description["num_parameters"].get<uint64_t>() > kLayerParameters);
}

}  // namespace runnel::test
