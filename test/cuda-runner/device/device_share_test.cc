// --gpu-memory-utilization: a share of the device's memory for everything on it.
#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/emulator/settings.h"
#include "runner/commands/loaded_model.h"
#include "runner/commands/memory_plan.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/sequences.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint64_t kTotal = uint64_t{64} << 20;
// The device allocates memory in multiples of this.
constexpr uint64_t kAllocationBytes = 256;

class Fixture {
 public:
  Fixture() {
    emulator::start({.memory_bytes = kTotal});
    flags.set_gpu_defaults();
    flags.model = file_.path();
    flags.max_num_seqs = kMaxNumSeqs;
    flags.max_num_batched_tokens = 64;
  }
  // The next test has the machine as it was.
  ~Fixture() { emulator::start(emulator::settings_from_environment()); }

  Result<LoadedModel> load_it() const {
    return load(flags, *make_cuda_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
  }
  MemoryPlan plan() const {
    const std::unique_ptr<Backend> backend = *make_cuda_backend(flags.backend_options());
    return *plan_memory(flags, *read_model_file(flags), *backend, usable_memory(flags, *backend));
  }

  EngineFlags flags;

 private:
  TemporaryFile file_{write_tiny_llama({}).bytes()};
};

uint64_t free_bytes_now() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  require_success(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

uint64_t block_bytes_of(const LoadedModel& loaded) {
  return loaded.kv_cache_bytes / loaded.engine->config().scheduler.num_blocks;
}

TEST_CASE_FIXTURE(Fixture, "share of the device: the cache fills it, beside everything else on the device") {
  for (const uint64_t others : {uint64_t{0}, kTotal / 5}) {
    const TestStream stream;
    const DeviceArray<uint8_t> of_others(stream, others);
    for (const double share : {0.5, 0.9}) {
      CAPTURE(share);
      flags.gpu_memory_utilization = share;
      const Result<LoadedModel> loaded = load_it();
      REQUIRE(loaded.ok());
      const uint64_t used = kTotal - loaded->backend->device().free_memory_bytes();
      const auto allowed = static_cast<uint64_t>(share * kTotal);
      CHECK(used <= allowed);
      CHECK(used + block_bytes_of(*loaded) + 2 * kAllocationBytes > allowed);
    }
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "share of the device: a plan reserves what serving reserves, and says that it fits") {
  // With experts, steps have memory for the rows of each.
  for (const auto& [share, model] :
       {std::pair{0.5, flags.model}, {1.0, flags.model}, {1.0, golden_model_path("qwen3moe-q8_0.gguf")}}) {
    CAPTURE(share);
    CAPTURE(model);
    flags.model = model;
    flags.gpu_memory_utilization = share;
    const MemoryPlan planned = plan();
    const Result<LoadedModel> loaded = load_it();
    REQUIRE(loaded.ok());
    CHECK(planned.kv_cache == loaded->kv_cache_bytes);
    const uint64_t used = kTotal - loaded->backend->device().free_memory_bytes();
    // Vectors are rounded up on the device.
    CHECK(used >= planned.needed());
    CHECK(used < planned.needed() + 16 * kAllocationBytes);
    CHECK_FALSE(shortage_of(planned));
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "share of the device: a share that the weights fill is refused with a sufficient one") {
  flags.gpu_memory_utilization = 0.001;
  const Result<LoadedModel> refused = load_it();
  REQUIRE_FALSE(refused.ok());
  const std::string& message = refused.error().message;
  CHECK(refused.error().exit_code == ExitCode::kSystem);
  CHECK(
      message.starts_with("Insufficient VRAM for KV cache (need at least 1 MB): --gpu-memory-utilization is "
                          "0.001, which is 67108 of "
                          "the device's 67108864 bytes; everything there takes "));
  CHECK(message.find("; 67108864 are free. Start with ") != message.npos);
  CHECK(refused.error().shortage->available_bytes == 67108);
  const size_t number = message.find("Start with ");
  REQUIRE(number != message.npos);
  flags.gpu_memory_utilization = std::stod(message.substr(number + 11));
  CHECK(load_it().ok());
}

TEST_CASE_FIXTURE(Fixture,
                  "share of the device: what the driver takes for kernels and all graphs is within it") {
  emulator::start({.memory_bytes = kTotal, .kernel_bytes = 40'000, .graph_bytes = 100'000});
  const Result<LoadedModel> loaded = load_it();
  REQUIRE(loaded.ok());
  Engine& engine = *loaded->engine;
  // A step for each number of next tokens that has a graph of its own.
  for (uint32_t i = 1; i <= flags.max_num_batched_tokens; ++i) {
    REQUIRE_FALSE(engine.add(sequence_of(i, {i % 50 + 1}, 200)));
    engine.step();
  }
  const uint64_t used = kTotal - loaded->backend->device().free_memory_bytes();
  const auto allowed = static_cast<uint64_t>(kDefaultUtilization * kTotal);
  CHECK(used <= allowed);
  CHECK(used + block_bytes_of(*loaded) + 16 * kAllocationBytes > allowed);
}

TEST_CASE_FIXTURE(Fixture, "share of the device: each of two runners has half of it, whichever is first") {
  flags.num_runners = 2;
  std::vector<LoadedModel> runners;
  for (int i = 0; i < 2; ++i) {
    const uint64_t before = free_bytes_now();
    runners.push_back(*load_it());
    const uint64_t own = before - runners.back().backend->device().free_memory_bytes();
    CHECK(own <= kDefaultUtilization * kTotal / 2);
    CHECK(own > kDefaultUtilization * kTotal / 2 * 0.95);
  }
  CHECK(runners[0].kv_cache_bytes == runners[1].kv_cache_bytes);
}

TEST_CASE_FIXTURE(Fixture,
                  "share of the device: a number of blocks is obeyed, and nothing is computed for it") {
  flags.num_kvcache_blocks = 7;
  emulator::start({.memory_bytes = kTotal, .graph_bytes = kTotal});
  const Result<LoadedModel> loaded = load_it();
  REQUIRE(loaded.ok());
  CHECK(loaded->engine->config().scheduler.num_blocks == 7);
}

}  // namespace
}  // namespace runnel
