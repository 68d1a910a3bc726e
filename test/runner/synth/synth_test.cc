#include "runner/synth/synth.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "cpu-runner/cpu_backend.h"
#include "runner/commands/run_commands.h"
#include "runner/formats/dequantize.h"
#include "test/fixtures/model_harness.h"
#include "test/fixtures/temporary_folder.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr LlamaSizes kSmall{.num_layers = 2,
                            .hidden_size = 96,
                            .num_heads = 3,
                            .num_kv_heads = 1,
                            .head_dim = 32,
                            .ffn_size = 160,
                            .vocab_size = 150,
                            .context_length = 256,
                            .rope_theta = 500'000.0f,
                            .ties_embedding = false};

// Its heads are together wider than the hidden size.
constexpr LlamaSizes kSmallQwen3{.num_layers = 2,
                                 .hidden_size = 96,
                                 .num_heads = 4,
                                 .num_kv_heads = 2,
                                 .head_dim = 64,
                                 .ffn_size = 160,
                                 .vocab_size = 150,
                                 .context_length = 256,
                                 .rope_theta = 1'000'000.0f,
                                 .ties_embedding = true,
                                 .architecture = "qwen3",
                                 .has_head_norms = true,
                                 .rms_epsilon = 1e-6f};

// kSmall, with sizes in whole blocks of the type.
LlamaSizes small_of(TensorType type) {
  LlamaSizes sizes = kSmall;
  if (block_weights(type) > 32) {
    sizes.hidden_size = sizes.ffn_size = block_weights(type);
    sizes.num_heads = sizes.hidden_size / 32;
  }
  return sizes;
}

std::string contents_of(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

struct Fixture {
  test::TemporaryFolder folder;
  std::string path = folder.path() + "/model.gguf";

  Result<uint64_t> write(const std::string& to, TensorType type, uint64_t seed) const {
    return write_random_llama(small_of(type), type, seed, to, [](uint64_t, uint64_t) {});
  }
};

}  // namespace

TEST_CASE("synth: the shapes have as many weights as the models they are named after") {
  const auto num_weights = [](const char* architecture, const char* shape) {
    const LlamaSizes* const sizes = shape_named(architecture, shape);
    REQUIRE(sizes != nullptr);
    uint64_t sum = 0;
    for (const RandomTensor& tensor : llama_tensors(*sizes, TensorType::kQ4_1, TensorType::kQ4_1))
      sum += tensor.num_weights();
    return sum;
  };
  CHECK(num_weights("llama", "160m") == 162'417'408);
  CHECK(num_weights("llama", "1b") == 1'235'814'400);
  CHECK(num_weights("llama", "8b") == 8'030'261'248);
  CHECK(num_weights("qwen3", "0.6b") == 596'049'920);
  CHECK(shape_named("llama", "1B") == nullptr);
  CHECK(shape_named("llama", "0.6b") == nullptr);
  CHECK(shape_named("qwen3", "1b") == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "synth: a file of each type is read whole, and its logits are ordinary numbers") {
  for (const TensorType type : tensor_types()) {
    CAPTURE(type_name(type));
    const std::string each = path + std::string(type_name(type));
    REQUIRE(write(each, type, 1).ok());
    test::ModelHarness harness(each, make_cpu_backend({.num_threads = 1}), 32, 0);
    CHECK(harness.config().head_dim == 32);
    for (const std::vector<float>& logits : harness.run({3, 1, 4, 1, 5, 9, 2, 6}, 8)) {
      for (const float logit : logits) REQUIRE(std::abs(logit) < 30.0f);
      const auto [least, most] = std::ranges::minmax(logits);
      CHECK(most - least > 1.0f);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "synth: a qwen3 has the heads and norms of its shape, and ordinary logits") {
  REQUIRE(write_random_llama(kSmallQwen3, TensorType::kQ8_0, 1, path, [](uint64_t, uint64_t) {}).ok());
  const Result<ModelFile> file = ModelFile::open(path);
  CHECK(file->text("general.architecture") == "qwen3");
  for (const char* norm : {"blk.1.attn_q_norm.weight", "blk.1.attn_k_norm.weight"}) {
    const TensorView* const gains = file->find_tensor(norm);
    REQUIRE(gains != nullptr);
    CHECK(gains->columns() == kSmallQwen3.head_dim);
  }
  test::ModelHarness harness(path, make_cpu_backend({.num_threads = 1}), 32, 0);
  CHECK(harness.config().num_heads == 4);
  CHECK(harness.config().num_kv_heads == 2);
  CHECK(harness.config().head_dim == 64);
  CHECK(harness.config().rope_theta == 1e6);
  CHECK(harness.config().norm_epsilon == 1e-6f);
  for (const std::vector<float>& logits : harness.run({3, 1, 4, 1, 5, 9, 2, 6}, 8)) {
    for (const float logit : logits) REQUIRE(std::abs(logit) < 30.0f);
    const auto [least, most] = std::ranges::minmax(logits);
    CHECK(most - least > 1.0f);
  }
}

TEST_CASE_FIXTURE(Fixture, "synth: weights lie around zero and keep the size of what they multiply") {
  for (const TensorType type : tensor_types()) {
    CAPTURE(type_name(type));
    const std::string each = path + std::string(type_name(type));
    REQUIRE(write(each, type, 1).ok());
    const Result<ModelFile> file = ModelFile::open(each);
    const TensorView* tensor = file->find_tensor("blk.1.ffn_down.weight");
    REQUIRE(tensor != nullptr);
    CHECK(tensor->type == type);
    std::vector<float> values(tensor->columns() * tensor->rows());
    dequantize_row(type, tensor->data, values);
    double sum = 0;
    double sum_of_squares = 0;
    for (const float value : values) {
      sum += value;
      sum_of_squares += double{value} * value;
    }
    const auto count = static_cast<double>(values.size());
    const auto columns = static_cast<double>(tensor->columns());
    CHECK(std::abs(sum / count) < 0.1 / std::sqrt(columns));
    CHECK(std::abs(std::sqrt(columns * sum_of_squares / count) - 1.0) < 0.1);
  }
}

TEST_CASE_FIXTURE(Fixture, "synth: the same seed writes the same bytes, another one others") {
  REQUIRE(write(path, TensorType::kQ4_1, 7).ok());
  REQUIRE(write(path + "2", TensorType::kQ4_1, 7).ok());
  REQUIRE(write(path + "3", TensorType::kQ4_1, 8).ok());
  CHECK(contents_of(path) == contents_of(path + "2"));
  CHECK(contents_of(path) != contents_of(path + "3"));
  CHECK(*write(path + "4", TensorType::kQ4_1, 7) == contents_of(path).size());
}

TEST_CASE_FIXTURE(Fixture, "synth: an existing file is not overwritten, and no partial file remains") {
  std::ofstream(path) << "mine";
  const Error refused = write(path, TensorType::kQ4_1, 1).error();
  CHECK(refused.exit_code == ExitCode::kUsage);
  CHECK(refused.message == path + " exists and is not overwritten. Name another file, or remove it.");
  CHECK(contents_of(path) == "mine");
  CHECK(write(folder.path() + "/none/model.gguf", TensorType::kQ4_1, 1).error().exit_code ==
        ExitCode::kNoFile);

  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 20'000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Result<uint64_t> cut = write(path + "2", TensorType::kQ4_1, 1);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(cut.error().exit_code == ExitCode::kSystem);
  CHECK(cut.error().message.find("cannot be written") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path + "2"));
}

TEST_CASE_FIXTURE(Fixture,
                  "synth: progress is reported, and an unknown shape is refused with the known ones") {
  uint64_t last = 0;
  const Result<uint64_t> written =
      write_random_llama(kSmall, TensorType::kF16, 1, path, [&](uint64_t done, uint64_t total) {
        CHECK(last < done);
        CHECK(done <= total);
        last = done;
      });
  CHECK(last == *written);  // the last tensor needs no padding
  std::ostringstream out;
  const auto refusal = [&](const char* architecture, const char* shape) {
    const Result<void> refused =
        synth({.architecture = architecture, .shape = shape, .file = path}, out, out);
    CHECK(refused.error().exit_code == ExitCode::kUsage);
    return refused.error().message;
  };
  CHECK(refusal("llama", "70b") == "--shape is 70b; with --arch llama it must be one of: 160m, 1b, 8b.");
  CHECK(refusal("llama", "0.6b") == "--shape is 0.6b; with --arch llama it must be one of: 160m, 1b, 8b.");
  CHECK(refusal("qwen3", "1b") == "--shape is 1b; with --arch qwen3 it must be one of: 0.6b.");
  CHECK(out.str() == "");
}

}  // namespace runnel
