// --gpu-memory-utilization: a share of the device's memory for everything on it.
#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/emulator/settings.h"
#include "runner/commands/loaded_model.h"
#include "runner/commands/memory_plan.h"
#include "test/cuda-runner/on_device.h"
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
  for (const double share : {0.5, 1.0}) {
    CAPTURE(share);
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
      message.starts_with("--gpu-memory-utilization is 0.001, which is 67108 of the device's 67108864 bytes; "
                          "everything on it takes "));
  CHECK(refused.error().shortage->available_bytes == 67108);
  const size_t number = message.find("Start with ");
  REQUIRE(number != message.npos);
  flags.gpu_memory_utilization = std::stod(message.substr(number + 11));
  CHECK(load_it().ok());
}

}  // namespace
}  // namespace runnel
