// Weights that another process has packed: the same bits come of them as of a runner's own.
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/models/registry.h"
#include "runner/system/memory_file.h"
#include "test/cpu-runner/cpu_harness.h"
#include "test/fixtures/golden_models.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

std::shared_ptr<MemoryFile> new_file() {
  Result<MemoryFile> file = MemoryFile::create("runnel-test");
  REQUIRE(file.ok());
  return std::make_shared<MemoryFile>(*std::move(file));
}

std::shared_ptr<MemoryFile> passed(const MemoryFile& file) {
  Result<MemoryFile> sealed = MemoryFile::inherit(dup(file.descriptor()), "--weights-fd", Seals::kAll);
  if (!sealed.ok()) FAIL(sealed.error().message);
  return std::make_shared<MemoryFile>(*std::move(sealed));
}

using OpenFile = std::function<Result<ModelFile>()>;

// Logits of own weights, of the runner that packs for others, and of one that uses what was packed, after the
// first has gone.
void compare(const OpenFile& open, const std::vector<uint32_t>& ids, CpuOptions options) {
  constexpr uint32_t kChunkRows = 7;
  const Logits own = CpuHarness(open(), options).run(ids, kChunkRows);
  options.weights_file = new_file();
  std::shared_ptr<MemoryFile> kept;
  {
    CpuHarness packer(open(), options);
    REQUIRE(options.weights_file->is_sealed());
    kept = passed(*options.weights_file);
    CHECK(same_bits(packer.run(ids, kChunkRows), own));
  }
  options.weights_file = kept;
  CHECK(same_bits(CpuHarness(open(), options).run(ids, kChunkRows), own));
}

TEST_CASE("each architecture has the same logits with its own, with packed and with shared weights") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::vector<uint32_t> ids = Golden(model).ids();
    const CpuOptions options{.num_threads = 2, .max_positions = model.max_positions};
    for (const std::string& path : {f32_path(model), q8_0_path(model)})
      compare([&] { return ModelFile::open(path); }, ids, options);
    for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0})
      compare([&] { return quantised(f32_path(model), type); }, ids, options);
    const TemporaryFile half(bytes_in(TensorType::kF16, model));
    compare([&] { return ModelFile::open(half.path()); }, ids, options);
  }
}

TEST_CASE("each type of weights, and float activations, have the same logits with shared weights") {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < 40; ++id) ids.push_back(id % 32);
  for (const std::string type : {"f32", "f16", "q4_0", "q4_1", "q8_0"}) {
    CAPTURE(type);
    const std::string path = std::string(RUNNEL_SOURCE_DIR) + "/test/golden/tiny-llama-" + type + ".gguf";
    for (const ActivationType activations : {ActivationType::kI8, ActivationType::kF32})
      compare([&] { return ModelFile::open(path); }, ids, {.activations = activations});
  }
}

TEST_CASE("weights that threads of some NUMA nodes have packed serve threads of others") {
  for (const GoldenModel& model : kGoldenModels) {
    if (model.name != "llama3" && model.name != "mixtral") continue;
    CAPTURE(model.golden);
    const std::vector<uint32_t> ids = Golden(model).ids();
    const auto logits_with = [&](uint32_t num_nodes, std::shared_ptr<MemoryFile> weights_file) {
      CpuHarness harness(q8_0_path(model), {.num_threads = 5,
                                            .max_positions = model.max_positions,
                                            .weights_file = std::move(weights_file),
                                            .num_nodes = num_nodes});
      return harness.run(ids, 7);
    };
    const Logits own = logits_with(1, nullptr);
    for (const uint32_t num_packers : {1u, 2u, 4u}) {
      CAPTURE(num_packers);
      const std::shared_ptr<MemoryFile> file = new_file();
      CHECK(same_bits(logits_with(num_packers, file), own));
      REQUIRE(file->is_sealed());
      for (const uint32_t num_nodes : {1u, 2u, 4u}) {
        CAPTURE(num_nodes);
        CHECK(same_bits(logits_with(num_nodes, passed(*file)), own));
      }
    }
  }
}

TEST_CASE("shared weights of the same file with another quantisation are refused") {
  const auto open = [](std::optional<TensorType> type) {
    return type ? quantised(f32_path(kGoldenModels[0]), *type) : ModelFile::open(f32_path(kGoldenModels[0]));
  };
  CpuOptions options{.weights_file = new_file()};
  const CpuHarness packer(open(TensorType::kQ8_0), options);
  for (const std::optional<TensorType> type : {std::optional<TensorType>(), {TensorType::kQ4_0}}) {
    const Result<ModelFile> file = open(type);
    const auto backend = make_cpu_backend({.weights_file = passed(*options.weights_file)});
    const StepLimits limits{.max_rows = 8, .max_head_rows = 8};
    const auto loaded = load_model(*file, "", 0, **backend, limits, {});
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().exit_code == ExitCode::kTryAgain);
    CHECK(loaded.error().message.find("has the weights of another model than " + file->identity()) !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace runnel
