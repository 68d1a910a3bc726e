#include "runner/commands/memory_plan.h"

#include "cpu-runner/cpu_backend.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// The heap of a sanitizer does not report the bytes that it has allocated.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHeapTells = false;
#else
constexpr bool kHeapTells = true;
#endif

const BackendFactory kCpu{.kind = "cpu", .make = make_cpu_backend};

EngineFlags flags_of(const std::string& name) {
  EngineFlags flags;
  flags.model = std::string(RUNNEL_SOURCE_DIR) + "/test/golden/tiny-llama-" + name + ".gguf";
  flags.num_threads = 1;
  flags.max_num_seqs = 4;
  return flags;
}

Result<MemoryPlan> planned(const EngineFlags& flags) {
  const Result<ModelFiles> file = ModelFiles::open(flags.model);
  REQUIRE(file.ok());
  return plan_memory(flags, *file, kCpu);
}

TEST_CASE("loading takes exactly the planned memory") {
  for (const char* name : {"f32", "f16", "q4_0", "q4_1", "q8_0", "window"}) {
    CAPTURE(name);
    const EngineFlags flags = flags_of(name);
    const Result<MemoryPlan> plan = planned(flags);
    REQUIRE(plan.ok());
    Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
    REQUIRE(backend.ok());
    const Result<LoadedModel> loaded = load(flags, *std::move(backend), {});
    REQUIRE(loaded.ok());
    CHECK(plan->kv_cache == loaded->kv_cache_bytes);
    CHECK(plan->max_model_len == loaded->engine->config().max_model_len);
    // The backend holds more than planned, because rows and planes of small matrices are padded.
    const uint64_t held = loaded->backend->weights_bytes();
    CHECK(plan->weights <= held);
    CHECK(plan->weights > held / 2);
    // A step needs at least the logits of a group of rows.
    if (kHeapTells)
      CHECK(plan->step > uint64_t{kMaxHeadRows} * loaded->model->config().vocab_size * sizeof(float));
  }
}

TEST_CASE("weights that are arranged or quantised as they are loaded are planned as they are held") {
  const auto weights = [](const std::string& model, std::optional<TensorType> quantize) {
    EngineFlags flags = flags_of("f32");
    flags.model = std::string(RUNNEL_SOURCE_DIR) + "/test/golden/models/" + model;
    flags.quantize = quantize;
    const Result<MemoryPlan> plan = planned(flags);
    REQUIRE(plan.ok());
    Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
    REQUIRE(backend.ok());
    const Result<LoadedModel> loaded = load(flags, *std::move(backend), {});
    REQUIRE(loaded.ok());
    const uint64_t held = loaded->backend->weights_bytes();
    CHECK(plan->weights <= held);
    CHECK(plan->weights > held / 2);
    return std::pair(plan->weights, held);
  };
  // GPT-2's matrices are transposed, and Llama's rows are reordered. A folder takes as much memory as its
  // GGUF file, except for GPT-2's position embedding (512, 64): it is F16 from the folder and F32 from the
  // file.
  for (const auto& [model, narrower] :
       {std::pair<std::string, uint64_t>("gpt2", 512 * 64 * 2), {"llama3", 0}}) {
    CAPTURE(model);
    for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0})
      CHECK(weights(model, type).first + narrower == weights(model + "-f32.gguf", type).first);
    CHECK(weights(model, TensorType::kQ8_0).first + narrower == weights(model + "-q8_0.gguf", {}).first);
    CHECK(weights(model, TensorType::kQ4_0).second < weights(model, {}).second);
  }
}

TEST_CASE("a plan's cache grows with sequences and their length, and a step with its rows") {
  EngineFlags flags = flags_of("q8_0");
  flags.max_model_len = 128;
  const Result<MemoryPlan> small = planned(flags);
  flags.max_num_seqs = 8;
  const Result<MemoryPlan> more = planned(flags);
  flags.max_model_len = 256;
  flags.max_num_batched_tokens = 8192;
  const Result<MemoryPlan> longer = planned(flags);
  REQUIRE((small.ok() && more.ok() && longer.ok()));
  CHECK(more->kv_cache == 2 * small->kv_cache);
  CHECK(longer->kv_cache == 4 * small->kv_cache);
  if (kHeapTells) CHECK(longer->step > 2 * small->step);
}

TEST_CASE("a plan fails as loading does, and one that is larger than the memory says by how much") {
  EngineFlags flags = flags_of("q8_0");
  flags.max_model_len = 1u << 19;
  const Result<MemoryPlan> plan = planned(flags);
  REQUIRE(!plan.ok());
  CHECK(plan.error().message == "--max-model-len is 524288; this model allows 2 to 512.");
  const MemoryPlan large{.device = "",
                         .max_model_len = 2,
                         .max_num_seqs = 1,
                         .weights = 50,
                         .kv_cache = 30,
                         .step = 20,
                         .available = 99};
  CHECK(
      shortage_of(large).value_or("").starts_with("The model needs 100 bytes of memory; 99 are available."));
  MemoryPlan fitting = large;
  fitting.available = 100;
  CHECK(!shortage_of(fitting));
  fitting.available = std::nullopt;
  CHECK(!shortage_of(fitting));
}

}  // namespace
}  // namespace runnel
