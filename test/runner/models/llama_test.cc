// Loading: every tensor must be present and have its shape, and no tensor may be left over.
#include "runner/models/llama.h"

#include <functional>

#include "cpu-runner/cpu_backend.h"
#include "runner/models/registry.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr StepLimits kTinyLimits{.max_rows = 8, .max_head_rows = 8};

std::string refusal_of_llama(const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = write_tiny_llama({});
  change(writer);
  const TemporaryFile file(writer.bytes());
  const Result<ModelFile> opened = ModelFile::open(file.path());
  REQUIRE(opened.ok());
  const auto backend = make_cpu_backend({.num_threads = 1});
  REQUIRE(backend.ok());
  const auto model = load_model(*opened, "llama", 0, **backend, kTinyLimits, {});
  if (model) return "accepted";
  CHECK(model.error().exit_code == ExitCode::kBadModel);
  CHECK(model.error().message.starts_with(file.path()));
  return model.error().message.substr(file.path().size() + 1);
}

TEST_CASE("a llama loads, reports every tensor's bytes and holds as much memory as its file") {
  const GgufWriter writer = write_tiny_llama({});
  const TemporaryFile file(writer.bytes());
  const Result<ModelFile> opened = ModelFile::open(file.path());
  REQUIRE(opened.ok());
  const auto backend = make_cpu_backend({.num_threads = 1});
  uint64_t last_bytes = 0;
  int num_calls = 0;
  uint64_t tensor_bytes = 0;
  for (const TensorView& tensor : opened->tensors()) tensor_bytes += tensor.data.size();
  const auto model =
      load_model(*opened, "", 0, **backend, kTinyLimits, [&](uint64_t loaded_bytes, uint64_t total_bytes) {
        CHECK(loaded_bytes > last_bytes);
        CHECK(total_bytes == tensor_bytes);
        last_bytes = loaded_bytes;
        ++num_calls;
      });
  REQUIRE(model.ok());
  CHECK((*model)->config().num_layers == 2);
  CHECK(num_calls == static_cast<int>(opened->tensors().size()));
  CHECK(last_bytes == tensor_bytes);
  CHECK((*backend)->weights_bytes() >= tensor_bytes);
  CHECK((*backend)->weights_bytes() <
        tensor_bytes + tensor_bytes / 8);  // the last tile of a matrix is padded
}

TEST_CASE("a missing tensor is named") {
  for (const char* name : {"blk.1.attn_q.weight", "blk.0.ffn_norm.weight", "output_norm.weight"}) {
    CHECK(refusal_of_llama([&](GgufWriter& w) { w.remove_tensor(name); }) ==
          std::string("lacks tensor \"") + name + "\".");
  }
}

TEST_CASE("biases of queries without those of keys and values are refused") {
  CHECK(refusal_of_llama([](GgufWriter& w) {
          w.tensors.push_back({"blk.0.attn_q.bias", {64}, 0, std::string(256, '\0'), std::nullopt});
        }) == "lacks tensor \"blk.0.attn_k.bias\".");
}

TEST_CASE("a tensor of another shape is named with both shapes") {
  CHECK(refusal_of_llama([](GgufWriter& w) {
          w.tensor("blk.0.attn_k.weight").dims = {32, 64};
        }) == "has tensor \"blk.0.attn_k.weight\" of shape (32, 64); (64, 32) was expected.");
  CHECK(refusal_of_llama([](GgufWriter& w) {
          w.tensor("blk.1.attn_norm.weight").dims = {32, 2};
        }) == "has tensor \"blk.1.attn_norm.weight\" of shape (32, 2); (64) was expected.");
}

TEST_CASE("a tensor that this model has no use for is named") {
  for (const char* name : {"rope_factors_long.weight", "blk.0.ffn_up.bias", "blk.2.attn_q.weight"}) {
    const std::string message = refusal_of_llama([&](GgufWriter& w) {
      w.tensors.push_back({name, {8}, 0, std::string(32, 'x'), std::nullopt});
    });
    CHECK(message.starts_with(std::string("has tensor \"") + name + "\", which this architecture"));
  }
}

TEST_CASE("gains in a type that they cannot have are refused by name") {
  CHECK(refusal_of_llama([](GgufWriter& w) {
          w.tensor("output_norm.weight").type = static_cast<uint32_t>(TensorType::kQ8_0);
        }).find("tensor \"output_norm.weight\" of type Q8_0 must be a vector") != std::string::npos);
}

}  // namespace
}  // namespace runnel
