// Each architecture on the GPU backend: it has the CPU's bits, and is as near to transformers as the CPU is.
#include "test/fixtures/golden_models.h"

#include "cpu-runner/cpu_backend.h"
#include "cuda-runner/cuda_backend.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kGoldenBlockSize = 32;

ModelHarness on_gpu(const std::string& path, const GoldenModel& model, const BackendOptions& options) {
  return {path, make_cuda_backend(options), kGoldenBlockSize, 3, model.max_positions};
}

void check_bits_of_cpu(const std::string& path, const GoldenModel& model) {
  CAPTURE(model.golden);
  const std::vector<uint32_t> ids = Golden(model).ids();
  ModelHarness gpu = on_gpu(path, model, {});
  ModelHarness cpu(path, make_cpu_backend({.num_threads = 2}), 16, 0, model.max_positions);
  REQUIRE(same_bits(gpu.run(ids, 50), cpu.run(ids, 64)));
}

// Checks the vectors of each architecture, with F32 weights and quantised ones. A pooling has a test case of
// its own because it takes the emulator a minute in builds with sanitizers.
void check_vectors(const char* name, Pooling pooling) {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Golden golden(model);
    for (const std::string& path : {f32_path(model), q8_0_path(model)}) {
      CAPTURE(path);
      ModelHarness gpu = on_gpu(path, model, {.kv_type = KvType::kF32});
      ModelHarness cpu(path, make_cpu_backend({.num_threads = 2, .kv_type = KvType::kF32}), 16, 0,
                       model.max_positions);
      const std::vector<float> vector = gpu.embed(golden.ids(), pooling, 50);
      REQUIRE(same_bits({vector}, {cpu.embed(golden.ids(), pooling, 64)}));
      if (path == f32_path(model)) CHECK(difference_of(vector, golden.vector(name)).max < kMaxOfFloats);
    }
  }
}

TEST_CASE("golden models: an encoder is refused with what computes it") {
  const std::string path = golden_model_path("bert-f32.gguf");
  const auto file = ModelFile::open(path);
  REQUIRE(file);
  const auto backend = make_cuda_backend({});
  REQUIRE(backend);
  const auto model = load_model(*file, "", 0, **backend, {.max_rows = 8, .max_head_rows = 8}, {});
  REQUIRE(!model);
  CHECK(model.error().exit_code == ExitCode::kBadModel);
  CHECK(model.error().message ==
        path +
            ": encoders are computed on the CPU only; start cpu-runner, or the gateway with --backend cpu.");
}

TEST_CASE("golden models: a clamped gate without experts is refused by name") {
  const auto backend = make_cuda_backend({});
  REQUIRE(backend);
  LayerSpec layer{
      .index = 0,
      .attention = {4, 2, 16, 1.0f},
      .qkv = {},
      .attention_output = {},
      .ffn = {.norm = {}, .width = 64, .gate_up = {}, .nonlinearity = Nonlinearity::kClampedSwish},
      .ffn_output = {}};
  const DecoderSpec spec{.hidden_size = 64, .embedding = {}, .ropes = {}, .layers = {layer}, .head = {}};
  const auto memory = (*backend)->step_memory(spec, {.max_rows = 8, .max_head_rows = 8}, {1, 2, 16, 32, 4});
  REQUIRE(!memory);
  CHECK(memory.error().message == "a clamped gate without experts is computed on the CPU only.");
}

TEST_CASE("golden models: each architecture has the logits and greedy ids of transformers") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Golden golden(model);
    ModelHarness harness = on_gpu(f32_path(model), model, {.kv_type = KvType::kF32});
    const Logits logits = harness.run(golden.ids(), 64);
    CHECK(golden.difference(logits, "f32").max < kMaxOfFloats);
    CHECK(golden.greedy_of(logits) == golden.greedy());
  }
}

// Each type of weights has a test case of its own, because all of them together take minutes with sanitizers.
TEST_CASE("golden models: each architecture has the bits of the CPU with weights of F32") {
  for (const GoldenModel& model : kGoldenModels) check_bits_of_cpu(f32_path(model), model);
}

TEST_CASE("golden models: each architecture has the bits of the CPU with weights of F16") {
  for (const GoldenModel& model : kGoldenModels)
    check_bits_of_cpu(TemporaryFile(bytes_in(TensorType::kF16, model)).path(), model);
}

TEST_CASE("golden models: each architecture has the bits of the CPU with weights of BF16") {
  for (const GoldenModel& model : kGoldenModels)
    check_bits_of_cpu(TemporaryFile(bytes_in(TensorType::kBF16, model)).path(), model);
}

TEST_CASE("golden models: each architecture has the bits of the CPU with weights of Q8_0") {
  for (const GoldenModel& model : kGoldenModels) check_bits_of_cpu(q8_0_path(model), model);
}

TEST_CASE("golden models: each architecture has the bits of the CPU with weights quantised to Q4_0") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::vector<uint32_t> ids = Golden(model).ids();
    const Result<ModelFile> q4_0 = quantised(f32_path(model), TensorType::kQ4_0);
    ModelHarness gpu(q4_0, make_cuda_backend({}), kGoldenBlockSize, 3, model.max_positions);
    ModelHarness cpu(q4_0, make_cpu_backend({.num_threads = 2}), 16, 0, model.max_positions);
    REQUIRE(same_bits(gpu.run(ids, 50), cpu.run(ids, 64)));
  }
}

TEST_CASE("golden models: each architecture has the bits of the CPU from a folder") {
  for (const GoldenModel& model : kGoldenModels) check_bits_of_cpu(golden_model_path(model.name), model);
}

TEST_CASE(
    "golden models: each architecture has vectors of means of the bits of the CPU, and those of "
    "transformers") {
  check_vectors("mean", Pooling::kMean);
}

TEST_CASE(
    "golden models: each architecture has vectors of last tokens of the bits of the CPU, and those of "
    "transformers") {
  check_vectors("last", Pooling::kLast);
}

TEST_CASE(
    "golden models: each architecture has vectors of first tokens of the bits of the CPU, and those of "
    "transformers") {
  check_vectors("cls", Pooling::kCls);
}

TEST_CASE("golden models: graphs of decode steps have the bits of operations launched one by one") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    std::vector<uint32_t> ids = Golden(model).ids();
    ids.resize(24);
    ModelHarness eager = on_gpu(q8_0_path(model), model, {.enforce_eager = true});
    ModelHarness graphs = on_gpu(q8_0_path(model), model, {});
    const Logits wanted = eager.run(ids, 24);
    std::vector<HarnessStream> streams(3);
    for (HarnessStream& stream : streams) stream.token_ids = ids;
    for (size_t step = 0; step < ids.size(); ++step)
      graphs.step({{&streams[0], 1}, {&streams[1], 1}, {&streams[2], 1}});
    for (const HarnessStream& stream : streams) REQUIRE(same_bits(stream.logits, wanted));
  }
}

}  // namespace
}  // namespace runnel
