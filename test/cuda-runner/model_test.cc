// Whole models on the GPU backend: their logits, and what the logits must not depend on.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cpu-runner/cpu_backend.h"
#include "cpu-runner/isa.h"
#include "cuda-runner/cuda_backend.h"
#include "runner/sampling/sampler.h"
#include "test/fixtures/model_harness.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

struct CudaOptions {
  uint32_t block_size = 64;
  uint32_t shuffle_seed = 0;
  KvType kv_type = KvType::kF16;
  bool enforce_eager = false;
};

class CudaHarness : public ModelHarness {
 public:
  CudaHarness(const std::string& path, const CudaOptions& options)
      : ModelHarness(path,
                     make_cuda_backend({.kv_type = options.kv_type, .enforce_eager = options.enforce_eager}),
                     options.block_size, options.shuffle_seed) {}
};

std::string golden_path(const std::string& name) {
  return std::string(RUNNEL_SOURCE_DIR) + "/test/golden/tiny-llama-" + name;
}

nlohmann::json golden_of(const std::string& name) {
  std::ifstream stream(golden_path(name) + ".json");
  return nlohmann::json::parse(stream);
}

// Largest and mean difference from the reference. With float weights they are those of the CPU, see
// test/cpu-runner/golden_test.cc. With quantised weights activations are rounded to 8 bits, which the
// reference does not do. The error of an activation is up to 1 / 254 of the block's largest value, which
// moves logits of these files by some 2 per cent of the differences between them.
struct Tolerance {
  double max;
  double mean;
};
constexpr Tolerance kFloat{5e-4, 3e-5};
constexpr Tolerance kInt8{2e-1, 3e-2};

void compare(const std::string& name, const Tolerance& allowed) {
  const nlohmann::json golden = golden_of(name);
  CudaHarness harness(golden_path(name) + ".gguf", {});
  const Logits logits = harness.run(golden["ids"].get<std::vector<uint32_t>>(), 256);
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
  CAPTURE(name);
  CAPTURE(max);
  CAPTURE(sum / static_cast<double>(count));
  CHECK(max <= allowed.max);
  CHECK(sum / static_cast<double>(count) <= allowed.mean);
}

TEST_CASE("model: logits of float weights are those of the independent reference") {
  compare("f32", kFloat);
  compare("f16", kFloat);
}

TEST_CASE("model: logits of quantised weights are near those of the independent reference") {
  compare("q4_0", kInt8);
  compare("q4_1", kInt8);
  compare("q8_0", kInt8);
}

struct Subject {
  std::unique_ptr<TemporaryFile> file;
  KvType kv_type;
};

std::vector<Subject> subjects() {
  using enum TensorType;
  constexpr uint32_t kWindow = 37;
  const std::pair<TinyLlama, KvType> models[] = {
      {{.matrix_type = kQ4_1, .embedding_type = kQ8_0}, KvType::kF16},
      {{.matrix_type = kQ4_0, .embedding_type = kF16, .window = kWindow}, KvType::kF16},
      {{.matrix_type = kF32, .embedding_type = kF32, .ffn = 72}, KvType::kF32},
      {{.num_heads = 2, .num_kv_heads = 1, .window = kWindow}, KvType::kQ8_0},
  };
  std::vector<Subject> all;
  for (const auto& [model, kv_type] : models)
    all.push_back({std::make_unique<TemporaryFile>(write_tiny_llama(model).bytes()), kv_type});
  return all;
}

constexpr uint32_t kNumIds = 70;

TEST_CASE("model: logits have the bits of the CPU, with each of its instruction sets") {
  constexpr uint32_t kSeed = 36;
  // One whole split of attention, and a part of a tile in a second one.
  constexpr uint32_t kManyIds = 270;
  std::mt19937 rng(kSeed);
  for (const Subject& subject : subjects()) {
    CudaHarness device(subject.file->path(), {.kv_type = subject.kv_type});
    const std::vector<uint32_t> ids = random_ids(kManyIds, device.config().vocab_size, rng);
    const Logits logits = device.run(ids, 200);
    for (const Kernels* kernels : usable_kernels()) {
      CAPTURE(kernels->name);
      ModelHarness cpu(subject.file->path(),
                       make_cpu_backend({.kv_type = subject.kv_type, .isa = kernels->name}), 16, 0);
      CHECK(cpu.backend().numerics_id() == device.backend().numerics_id());
      CHECK(same_bits(cpu.run(ids, 64), logits));
    }
  }
}

TEST_CASE("model: logits do not depend on blocks, chunks or graphs") {
  constexpr uint32_t kSeed = 31;
  CAPTURE(kSeed);
  std::mt19937 rng(kSeed);
  for (const Subject& subject : subjects()) {
    const std::string path = subject.file->path();
    CAPTURE(kv_type_name(subject.kv_type));
    CudaHarness graphs(path, {.kv_type = subject.kv_type});
    const std::vector<uint32_t> ids = random_ids(kNumIds, graphs.config().vocab_size, rng);
    const Logits wanted = graphs.run(ids, 1);  // as decode steps would
    CudaHarness eager(path, {.kv_type = subject.kv_type, .enforce_eager = true});
    CHECK(same_bits(eager.run(ids, 1), wanted));
    CHECK(same_bits(graphs.run(ids, kNumIds), wanted));
    for (const uint32_t block_size : {8u, 32u, 256u}) {
      const uint32_t chunk = 1 + rng() % kNumIds;
      CAPTURE(block_size);
      CAPTURE(chunk);
      CudaHarness harness(path,
                          {.block_size = block_size, .shuffle_seed = chunk, .kv_type = subject.kv_type});
      REQUIRE(same_bits(harness.run(ids, chunk), wanted));
    }
  }
}

TEST_CASE(
    "model: logits do not depend on what else is in the batch, nor on the rows a graph is filled up with") {
  constexpr uint32_t kSeed = 32;
  CAPTURE(kSeed);
  std::mt19937 rng(kSeed);
  for (const Subject& subject : subjects()) {
    const std::string path = subject.file->path();
    CudaHarness alone(path, {.kv_type = subject.kv_type});
    CudaHarness together(path, {.block_size = 16, .shuffle_seed = 5, .kv_type = subject.kv_type});
    std::vector<HarnessStream> streams(5);
    std::vector<Logits> wanted;
    for (HarnessStream& stream : streams) {
      stream.token_ids = random_ids(1 + rng() % kNumIds, alone.config().vocab_size, rng);
      wanted.push_back(alone.run(stream.token_ids, kNumIds));
    }
    const auto left = [](const HarnessStream& stream) {
      return static_cast<uint32_t>(stream.token_ids.size()) - stream.num_done;
    };
    while (std::ranges::any_of(streams, [&](const HarnessStream& stream) { return left(stream) > 0; })) {
      // Some steps have only next tokens, which graphs compute; others also have parts of prompts.
      const bool is_decode = rng() % 2 == 0;
      std::vector<ModelHarness::Share> shares;
      for (HarnessStream& stream : streams) {
        if (left(stream) == 0 || rng() % 4 == 0) continue;
        const uint32_t num_rows = is_decode || rng() % 2 == 0 ? 1 : 1 + rng() % std::min(left(stream), 20u);
        shares.push_back({&stream, num_rows});
      }
      if (shares.empty()) continue;
      std::ranges::shuffle(shares, rng);
      together.step(shares);
    }
    for (size_t i = 0; i < streams.size(); ++i) REQUIRE(same_bits(streams[i].logits, wanted[i]));
  }
}

TEST_CASE("model: aborted passes do not affect later graphs") {
  const std::unique_ptr<TemporaryFile> file = std::move(subjects().front().file);
  std::mt19937 rng(34);
  CudaHarness eager(file->path(), {.enforce_eager = true});
  const std::vector<uint32_t> ids = random_ids(8, eager.config().vocab_size, rng);
  CudaHarness harness(file->path(), {});
  const std::vector<std::vector<uint32_t>> tables{{0}};
  const auto next_token = [&] {
    return Batch{.token_ids = {ids[0]}, .positions = {0}, .types = {}, .sequences = {{0, 1, 0, tables}}};
  };
  // The first pass is cut before any operation, the second after the first layer.
  Batch batch = next_token();
  harness.backend().begin_forward(batch);
  batch = {};
  harness.backend().end_forward();
  batch = next_token();
  harness.model().forward(batch, [](Batch& cut) { cut = {}; });
  CHECK(same_bits(harness.run(ids, 1), eager.run(ids, 1)));
}

TEST_CASE("model: a graph is captured of kernels that no pass has launched before") {
  const std::unique_ptr<TemporaryFile> file = std::move(subjects().front().file);
  std::mt19937 rng(35);
  CudaHarness harness(file->path(), {});
  std::vector<HarnessStream> streams(4);
  for (HarnessStream& stream : streams) stream.token_ids = random_ids(1, harness.config().vocab_size, rng);
  harness.step({{&streams[0], 1}});
  // Other kernels compute products of three rows.
  harness.step({{&streams[1], 1}, {&streams[2], 1}, {&streams[3], 1}});
  CudaHarness eager(file->path(), {.enforce_eager = true});
  for (const HarnessStream& stream : streams) CHECK(same_bits(eager.run(stream.token_ids, 1), stream.logits));
}

TEST_CASE("model: tokens sampled on the device match the logits that the host reads") {
  constexpr uint32_t kSeed = 33;
  std::mt19937 rng(kSeed);
  const std::unique_ptr<TemporaryFile> file = std::move(subjects().front().file);
  CudaHarness harness(file->path(), {});
  const uint32_t vocab_size = harness.config().vocab_size;
  HarnessStream stream{random_ids(40, vocab_size, rng), 0, {}, {}};
  harness.step({{&stream, 40}});
  const std::vector<uint32_t> rows = {39, 3, 17, 3};
  const std::vector<SamplingParams> params = {{.temperature = 0.0f},
                                              {.top_p = 0.9f, .seed = 1},
                                              {.repetition_penalty = 1.5f, .seed = 2},
                                              {.seed = 3}};
  std::vector<HeadRow> head_rows;
  std::vector<std::optional<uint32_t>> wanted;
  Sampler sampler(vocab_size);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const std::span<const uint32_t> token_ids(stream.token_ids.data(), rows[i] + 1);
    head_rows.push_back({rows[i], Draw{token_ids, 2, params[i], {}}, /*wants_logits=*/true});
    wanted.push_back(sampler.sample(stream.logits[rows[i]], token_ids, 2, params[i]));
  }
  LogitRows& logits = harness.model().logits(head_rows);
  CHECK(std::ranges::equal(logits.drawn(), wanted));
  for (uint32_t i = 0; i < rows.size(); ++i) CHECK(std::ranges::equal(logits.row(i), stream.logits[rows[i]]));

  // More rows than are on the host at a time, which are read backwards.
  std::vector<HeadRow> all_rows;
  for (uint32_t row = 0; row < 40; ++row) all_rows.push_back({.row = row, .wants_logits = row % 8 != 3});
  LogitRows& many = harness.model().logits(all_rows);
  for (uint32_t row = 40; row-- > 0;)
    if (row % 8 != 3) CHECK(std::ranges::equal(many.row(row), stream.logits[row]));
}

}  // namespace
}  // namespace runnel
