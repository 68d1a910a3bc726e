// A model that several GPUs compute together has the bits that the CPU gives it. The GPUs are emulated ones,
// each of which is refused the memory of the others but for copies.
#include "test/fixtures/tensor_parallel.h"

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/emulator/machine.h"
#include "runner/commands/inspect.h"
#include "runner/commands/memory_plan.h"
#include "test/fixtures/emulated_gpus.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/temporary_folder.h"

namespace runnel {
namespace {

using namespace test;

std::vector<uint32_t> first_of(std::vector<uint32_t> ids, size_t count) {
  ids.resize(std::min(ids.size(), count));
  return ids;
}

}  // namespace

TEST_CASE("tensor parallel: each architecture has the CPU's logits on two GPUs") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const bool is_narrow = model.name == "qwen3moe";
    const std::vector<uint32_t> ids = first_of(Golden(model).ids(), 24);
    for (const std::string& path :
         {is_narrow ? experts.path() : f32_path(model), is_narrow ? experts.path() : q8_0_path(model)}) {
      CAPTURE(path);
      EngineFlags flags = gpu_flags_for(path);
      flags.max_model_len = model.max_positions;
      const Logits expected = cpu_logits(flags, ids);
      CHECK(same_bits(gpu_logits(flags, 2, ids), expected));
      CHECK(same_bits(gpu_logits(by_nccl(flags), 2, ids), expected));
    }
  }
}

TEST_CASE("tensor parallel: each architecture with more KV heads has the CPU's logits on four GPUs") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const TemporaryFile file(with_more_kv_heads(q8_0_path(model)).bytes());
    EngineFlags flags = gpu_flags_for(file.path());
    flags.max_model_len = model.max_positions;
    const std::vector<uint32_t> ids = first_of(Golden(model).ids(), 16);
    CHECK(same_bits(gpu_logits(flags, 4, ids), cpu_logits(flags, ids)));
  }
}

TEST_CASE("tensor parallel: a model on one of the GPUs is computed beside one that all of them compute") {
  const EngineFlags flags = gpu_flags_for(q8_0_path(kGoldenModels.front()));
  const std::vector<uint32_t> ids = first_of(Golden(kGoldenModels.front()).ids(), 24);
  const Gpus gpus(2);
  const Result<LoadedModel> alone = load_on_gpus(flags, 1);
  const Result<LoadedModel> shared = load_on_gpus(flags, 2);
  if (!alone.ok() || !shared.ok()) FAIL("a model is not loaded");
  const Logits expected = cpu_logits(flags, ids);
  CHECK(same_bits(logits_of(*alone, ids), expected));
  CHECK(same_bits(logits_of(*shared, ids), expected));
  CHECK(same_bits(logits_of(*alone, ids), expected));
}

TEST_CASE("tensor parallel: keys of heads that several GPUs have are gathered in their places") {
  const EngineFlags flags = gpu_flags_for(golden_model_path("olmo2-q8_0.gguf"));
  const std::vector<uint32_t> ids = count_from(3, 8);  // the last one alone
  const Logits expected = cpu_logits(flags, ids);
  for (const EngineFlags& any : {flags, by_nccl(flags)}) CHECK(same_bits(gpu_logits(any, 4, ids), expected));
}

TEST_CASE("tensor parallel: requests in company have the same tokens on any number of GPUs") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  const TemporaryFile llama(write_tiny_llama(llama_of(TensorType::kQ4_K)).bytes());
  for (const std::string& path : {llama.path(), experts.path(), golden_model_path("gemma3-q8_0.gguf"),
                                  golden_model_path("gpt2-q8_0.gguf"), golden_model_path("olmo2-q8_0.gguf"),
                                  golden_model_path("gemma2-q8_0.gguf")}) {
    CAPTURE(path);
    EngineFlags flags = gpu_flags_for(path);
    const auto expected = with_gpus(flags, 1, answers_of);
    for (const bool is_eager : {false, true}) {
      flags.enforce_eager = is_eager;
      for (const EngineFlags& any : {flags, by_nccl(flags)}) {
        CAPTURE(any.gathers_by_nccl);
        if (is_eager && any.gathers_by_nccl && path != llama.path()) continue;
        CHECK(with_gpus(any, 2, answers_of) == expected);
        if (path == llama.path() && !is_eager) CHECK(with_gpus(any, 4, answers_of) == expected);
      }
    }
  }
}

TEST_CASE("tensor parallel: no GPU holds more than its part of the weights and a tenth") {
  const TemporaryFile file(write_tiny_llama(llama_of(TensorType::kQ8_0)).bytes());
  // Of several, so many times what the largest part takes.
  const auto bytes = [](const LoadedModel& loaded) {
    return static_cast<double>(loaded.backend->weights_bytes());
  };
  const EngineFlags flags = gpu_flags_for(file.path());
  const double whole = with_gpus(flags, 1, bytes);
  for (const uint32_t num_gpus : {2u, 4u}) CHECK(with_gpus(flags, num_gpus, bytes) <= 1.1 * whole);
}

TEST_CASE("tensor parallel: what GPUs copy from each other is what docs/performance.md says of a token") {
  const TinyLlama model = llama_of(TensorType::kQ8_0);
  const TemporaryFile file(write_tiny_llama(model).bytes());
  const auto copied = [](const LoadedModel& loaded) {
    const uint64_t before = emulator::machine().num_peer_bytes;
    (void)logits_of(loaded, {1});
    return emulator::machine().num_peer_bytes - before;
  };
  for (const uint32_t num_gpus : {2u, 4u}) {
    CAPTURE(num_gpus);
    // Each GPU gets what the others have: in each layer hidden twice, attention and the feed-forward part. At
    // the start of a step it gets a row of hidden from each, and at its end the first one gets the logits.
    const uint64_t of_layer = (2 * model.hidden + model.hidden + model.ffn) * (num_gpus - 1);
    const uint64_t of_embedding = model.hidden * num_gpus * (num_gpus - 1);
    const uint64_t of_logits = model.vocab - (model.vocab + num_gpus - 1) / num_gpus;
    const EngineFlags flags = gpu_flags_for(file.path());
    for (const EngineFlags& any : {flags, by_nccl(flags)}) {
      CHECK(with_gpus(any, num_gpus, copied) ==
            sizeof(float) * (model.num_layers * of_layer + of_embedding + of_logits));
    }
  }
}

TEST_CASE("tensor parallel: the plan of memory has the pieces that NCCL gathers") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  for (const std::string& path : {experts.path(), golden_model_path("gemma2-q8_0.gguf")}) {
    CAPTURE(path);
    // What the GPUs have left, and what the plan says that a step takes of them.
    const auto left_and_planned = [](const LoadedModel& loaded) {
      const auto counted = count_weights(loaded.file, loaded.model->config(), *loaded.backend);
      const Result<StepMemory> memory = loaded.backend->step_memory(
          counted->spec, {.max_rows = 32, .max_head_rows = 8}, {1, 2, 16, 8, 4, 4, 64});
      return std::pair(loaded.backend->device().free_memory_bytes(), memory->rows);
    };
    const EngineFlags flags = gpu_flags_for(path);
    const auto [left, planned] = with_gpus(flags, 2, left_and_planned);
    const auto [left_with_nccl, planned_with_nccl] = with_gpus(by_nccl(flags), 2, left_and_planned);
    CHECK(planned_with_nccl > planned);
    CHECK(planned_with_nccl - planned == left - left_with_nccl);
  }
}

// A model that is too large for one GPU of gpu_bytes, and fits on two.
struct LargeModel {
  LargeModel() {
    flags.num_kvcache_blocks = 0;
    flags.max_model_len = 512;
    flags.gpu_memory_utilization = 0.9;
  }

  const TemporaryFile file{write_tiny_llama(llama_of(TensorType::kF32)).bytes()};
  EngineFlags flags = gpu_flags_for(file.path());
  const uint64_t weights =
      with_gpus(flags, 1, [](const LoadedModel& loaded) { return loaded.backend->weights_bytes(); });
  const uint64_t gpu_bytes = weights * 8 / 5;  // steps take about as much as the weights
};

TEST_CASE("tensor parallel: a model that is too large for one GPU fits on two") {
  const LargeModel model;
  const EngineFlags& flags = model.flags;
  const Gpus gpus(2, model.gpu_bytes);
  const Result<LoadedModel> one = load_on_gpus(flags, 1);
  REQUIRE_FALSE(one.ok());
  CHECK(one.error().exit_code == ExitCode::kSystem);
  const Result<LoadedModel> two = load_on_gpus(flags, 2);
  if (!two.ok()) FAIL(two.error().message);
  CHECK(two->kv_cache_bytes > 0);
}

TEST_CASE("tensor parallel: inspect plans a model for so many GPUs as are to compute it") {
  LargeModel model;
  EngineFlags& flags = model.flags;
  const Gpus gpus(3, model.gpu_bytes);
  const auto described = [&](uint32_t num_gpus) {
    flags.num_ranks = num_gpus;
    std::ostringstream out;
    CHECK(inspect(flags, {.kind = "cuda", .make = make_cuda_backend}, /*json=*/true, out).ok());
    return nlohmann::json::parse(out.str());
  };
  CHECK(described(1)["obstacle"].is_string());
  const nlohmann::json two = described(2);
  CHECK(two["obstacle"].is_null());
  CHECK(two["memory_bytes"] > model.weights);
  CHECK(two["available_bytes"] > model.gpu_bytes);
}

TEST_CASE("tensor parallel: where a GPU is gone, half as many compute the same tokens if they may") {
  EngineFlags flags = gpu_flags_for(golden_model_path("llama3-q8_0.gguf"));
  const auto expected = with_gpus(flags, 1, answers_of);
  flags.fewer_gpus = true;
  for (const uint32_t num_left : {1u, 3u}) {
    for (const EngineFlags& any : {flags, by_nccl(flags)}) {
      const Gpus gpus(num_left);
      const Result<LoadedModel> loaded = load_on_gpus(any, 4);
      if (!loaded.ok()) FAIL(loaded.error().message);
      CHECK(answers_of(*loaded) == expected);
      CHECK((loaded->backend->device().name().find("2 times") != std::string::npos) == (num_left == 3));
    }
  }
}

TEST_CASE("tensor parallel: where half of the GPUs cannot share the model, a quarter and so on does") {
  // 6 GPUs, three for each KV head; 3 cannot share 2 of them.
  const TemporaryFile file(write_tiny_llama({.hidden = 96, .num_heads = 6, .num_kv_heads = 2}).bytes());
  EngineFlags flags = gpu_flags_for(file.path());
  const auto expected = with_gpus(flags, 6, answers_of);
  flags.fewer_gpus = true;
  const Gpus gpus(5);
  const Result<LoadedModel> loaded = load_on_gpus(flags, 6);
  if (!loaded.ok()) FAIL(loaded.error().message);
  CHECK(loaded->backend->device().num_ranks() == 1);
  CHECK(answers_of(*loaded) == expected);
}

TEST_CASE("tensor parallel: a GPU that is not there is named, and what cannot be shared is refused") {
  const Gpus gpus(3);
  EngineFlags flags = gpu_flags_for(golden_model_path("llama3-q8_0.gguf"));
  const Result<LoadedModel> missing = load_on_gpus(flags, 4);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().exit_code == ExitCode::kNoDevice);
  CHECK(missing.error().message == "GPU 3 does not exist; the last GPU is GPU 2.");
  const Result<LoadedModel> odd = load_on_gpus(flags, 3);  // of 2 KV heads
  REQUIRE_FALSE(odd.ok());
  CHECK(odd.error().exit_code == ExitCode::kUsage);
  const Result<LoadedModel> alone = load_on_gpus(by_nccl(flags), 1);
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.error().exit_code == ExitCode::kUsage);
  CHECK(alone.error().message.starts_with("--all-gather-backend nccl has no effect with one GPU: "));
}

}  // namespace runnel
