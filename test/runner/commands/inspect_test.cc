#include "runner/commands/inspect.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel::test {
namespace {

nlohmann::json inspected(const GgufWriter& writer) {
  const TemporaryFile file(writer.bytes());
  std::ostringstream out;
  const BackendFactory none{.kind = "none",
                            .make = [](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
                              return Error{ExitCode::kNoDevice, "There is no device."};
                            }};
  EngineFlags flags;
  flags.model = file.path();
  REQUIRE(inspect(flags, none, /*json=*/true, out).ok());
  return nlohmann::json::parse(out.str());
}

// Of the tiny llama: q and o, k and v, and three of the feed-forward, in each of two layers.
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

TEST_CASE("inspect: what keeps a model from being served is told, and the rest as well") {
  const nlohmann::json description = inspected(write_tiny_llama({}));
  CHECK(description["obstacle"] == "There is no device.");
  CHECK(!description.contains("memory_bytes"));
  CHECK(description["num_parameters"].get<uint64_t>() > kLayerParameters);
}

}  // namespace runnel::test
