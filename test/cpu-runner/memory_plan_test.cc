// The plan of a runner's memory: that it is what is held, how the cache gets its size, and what is refused.
#include "runner/commands/memory_plan.h"

#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "cpu-runner/cpu_backend.h"
#include "cpu-runner/kernels/product.h"
#include "runner/commands/loaded_model.h"
#include "runner/system/available_memory.h"
#include "runner/system/process_memory.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/sequences.h"
#include "test/fixtures/temporary_folder.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint64_t kMiB = uint64_t{1} << 20;

EngineFlags flags_of(const std::string& path) {
  EngineFlags flags;
  flags.model = path;
  flags.num_threads = 1;
  flags.max_num_seqs = 4;
  return flags;
}

std::string tiny_path(const std::string& name) {
  return std::string(RUNNEL_SOURCE_DIR) + "/test/golden/tiny-llama-" + name + ".gguf";
}

UsableMemory within(std::optional<uint64_t> available, uint64_t process = 0) {
  UsableMemory usable;
  usable.available = available;
  usable.process = process;
  return usable;
}

Result<MemoryPlan> planned(const EngineFlags& flags, const UsableMemory& usable = {}) {
  const Result<ModelFile> file = read_model_file(flags);
  REQUIRE(file.ok());
  const Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
  REQUIRE(backend.ok());
  return plan_memory(flags, *file, **backend, usable);
}

LoadedModel loaded_with(const EngineFlags& flags) {
  Result<LoadedModel> loaded = load(flags, *make_cpu_backend(flags.backend_options()), {});
  REQUIRE(loaded.ok());
  return *std::move(loaded);
}

// A llama of 16 layers with K and V of one token in 4 KiB, and with a context of 4096 tokens.
class LongLlama {
 public:
  LongLlama() { flags = flags_of(file_.path()); }
  EngineFlags flags;
  static constexpr uint64_t kTokenBytes = 2 * 16 * 64 * 2;

 private:
  TemporaryFile file_{
      write_tiny_llama({.num_layers = 16, .num_heads = 1, .num_kv_heads = 1, .context = 4096}).bytes()};
};

}  // namespace

TEST_CASE("memory plan: weights and cache are what the loaded model holds, byte by byte") {
  std::vector<EngineFlags> all;
  for (const char* name : {"f32", "f16", "q4_0", "q4_1", "q8_0", "window"})
    all.push_back(flags_of(tiny_path(name)));
  for (const GoldenModel& model : kGoldenModels) {
    all.push_back(flags_of(f32_path(model)));
    all.push_back(flags_of(golden_model_path(model.name)));
    all.back().quantize = TensorType::kQ8_0;
  }
  for (EngineFlags& flags : all) {
    CAPTURE(flags.model);
    flags.kv_cache_bytes = kMiB;
    const Result<MemoryPlan> plan = planned(flags);
    REQUIRE(plan.ok());
    const LoadedModel loaded = loaded_with(flags);
    CHECK(plan->weights == loaded.backend->weights_bytes());
    CHECK(plan->kv_cache == loaded.kv_cache_bytes);
    CHECK(plan->max_model_len == loaded.engine->config().max_model_len);
    CHECK(plan->num_blocks == loaded.engine->config().scheduler.num_blocks);
  }
}

// What a process with sanitizers takes says nothing.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("memory plan: loading and computing take the planned memory, within a twentieth") {
  struct Case {
    uint32_t context;
    uint32_t num_threads;
    uint32_t num_nodes;
    uint32_t hidden;
    TensorType type;
  };
  for (const auto& [context, num_threads, num_nodes, hidden, type] :
       {Case{512, 1, 1, 512, TensorType::kQ8_0}, Case{2048, 2, 1, 512, TensorType::kF16},
        Case{1024, 5, 1, 512, TensorType::kQ4_1}, Case{1024, 2, 2, 512, TensorType::kQ8_0},
        Case{512, 5, 4, 512, TensorType::kQ4_1}}) {
    CAPTURE(context);
    CAPTURE(num_threads);
    CAPTURE(num_nodes);
    const TemporaryFile file{write_tiny_llama({.matrix_type = type,
                                               .num_layers = 4,
                                               .hidden = hidden,
                                               .num_heads = 8,
                                               .num_kv_heads = 8,
                                               .ffn = 4 * hidden,
                                               .vocab = 40000,
                                               .context = context})
                                 .bytes()};
    EngineFlags flags = flags_of(file.path());
    flags.num_threads = num_threads;
    flags.num_nodes = num_nodes;
    flags.max_num_seqs = 32;
    flags.num_kvcache_blocks = context / flags.block_size;
    Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
    REQUIRE(backend.ok());
    const Result<MemoryPlan> plan = planned(flags);
    REQUIRE(plan.ok());
    malloc_trim(0);  // what earlier tests have freed must not be used again
    const uint64_t before = *private_memory_bytes();
    const Result<LoadedModel> loaded = load(flags, *std::move(backend), {});
    REQUIRE(loaded.ok());
    const auto compute = [&](uint32_t num_requests, uint32_t num_tokens, uint32_t num_drawn) {
      for (uint32_t id = 1; id <= num_requests; ++id)
        CHECK_FALSE(loaded->engine->add(sequence_of(id, count_from(id, num_tokens), num_drawn)));
      while (loaded->engine->has_work()) (void)loaded->engine->step();
    };
    compute(1, context - 1, 1);  // writes to each block
    compute(16, 4, 16);          // has logits for many rows
    const double taken = static_cast<double>(*private_memory_bytes() - before);
    const double expected = static_cast<double>(plan->needed() - plan->requests);
    CAPTURE(taken);
    CAPTURE(expected);
    CHECK(taken < 1.05 * expected);
    CHECK(taken > 0.95 * expected - 16 * 40000 * sizeof(float));  // 16 rows of logits are not computed
  }
}
#endif

TEST_CASE("memory plan: a cache grows with sequences and their length, a step with its rows and threads") {
  EngineFlags flags = flags_of(tiny_path("q8_0"));
  flags.max_model_len = 128;
  flags.max_num_batched_tokens = 20 * kPanelRows;
  const MemoryPlan small = *planned(flags);
  flags.max_num_seqs = 8;
  const MemoryPlan more = *planned(flags);
  flags.max_model_len = 256;
  flags.max_num_batched_tokens *= 32;
  const MemoryPlan longer = *planned(flags);
  flags.num_threads = 4;
  const MemoryPlan shared = *planned(flags);
  CHECK(more.kv_cache == 2 * small.kv_cache);
  CHECK(longer.kv_cache == 4 * small.kv_cache);
  CHECK(longer.step.rows == 32 * small.step.rows);
  CHECK(shared.step.attention > longer.step.attention);
}

TEST_CASE("memory plan: each node has what products read of the rows") {
  for (const char* model : {"llama3-q8_0.gguf", "qwen3moe-q8_0.gguf"}) {
    CAPTURE(model);
    EngineFlags flags = flags_of(golden_model_path(model));
    flags.num_threads = 8;
    const MemoryPlan one = *planned(flags);
    flags.num_nodes = 2;
    const MemoryPlan two = *planned(flags);
    flags.num_nodes = 4;
    const MemoryPlan four = *planned(flags);
    CHECK(two.step.rows > one.step.rows);
    CHECK(four.step.rows - two.step.rows == 2 * (two.step.rows - one.step.rows));
    CHECK(four.step.logits - two.step.logits == 2 * (two.step.logits - one.step.logits));
    CHECK(four.step.attention == one.step.attention);
    CHECK(four.weights == one.weights);
  }
}

TEST_CASE("memory plan: attention is sized by the context that the cache holds, not by the model's") {
  const TemporaryFile file{
      write_tiny_llama({.num_heads = 8, .num_kv_heads = 2, .context = 1u << 17}).bytes()};
  EngineFlags flags = flags_of(file.path());
  flags.num_threads = 16;
  flags.max_num_seqs = 1;
  flags.kv_cache_bytes = uint64_t{1} << 40;
  const MemoryPlan whole = *planned(flags);
  REQUIRE(whole.max_model_len == 1u << 17);
  flags.kv_cache_bytes = whole.kv_cache / 16;
  CHECK(planned(flags)->step.attention < whole.step.attention / 15);
}

TEST_CASE_FIXTURE(LongLlama, "memory plan: the default cache is a quarter of what the rest leaves") {
  flags.max_num_seqs = 1024;
  const uint64_t available = 600 * kMiB;
  const MemoryPlan plan = *planned(flags, within(available, 7 * kMiB));
  const uint64_t left = available - available / kReserveShare - plan.weights - plan.step.total();
  CHECK(plan.kv_cache <= left / 4);
  CHECK(plan.kv_cache + 32 * kTokenBytes > left / 4);
  CHECK(plan.max_model_len == 4096);
  CHECK(plan.process == 7 * kMiB);
  CHECK(plan.total() == plan.process + plan.needed());
  CHECK_FALSE(shortage_of(plan));
}

TEST_CASE_FIXTURE(LongLlama,
                  "memory plan: the default cache is larger if one whole context needs it, up to half") {
  constexpr uint64_t kContext = 4096 * kTokenBytes;
  const MemoryPlan most = *planned(flags, within(8 * kContext / 3));
  CHECK(most.max_model_len == 4096);
  CHECK(most.kv_cache == kContext);
  const MemoryPlan cut = *planned(flags, within(kContext));
  CHECK(cut.max_model_len < 4096);
  CHECK(cut.max_model_len == cut.num_blocks * 32 + 1);
  CHECK(cut.kv_cache < kContext / 2);
  CHECK(cut.kv_cache > kContext / 4);
  // A context that was asked for may take more, and is refused rather than shortened.
  flags.max_model_len = 4096;
  const MemoryPlan asked = *planned(flags, within(kContext));
  CHECK(asked.max_model_len == 4096);
  CHECK(shortage_of(asked));
  CHECK_FALSE(shortage_of(*planned(flags, within(kContext * 3 / 2))));
}

TEST_CASE_FIXTURE(
    LongLlama, "memory plan: the default cache has no more blocks than requests can use, and at least one") {
  flags.max_num_seqs = 2;
  CHECK(planned(flags, within(uint64_t{1} << 40))->num_blocks == 2 * 4096 / 32);
  CHECK(planned(flags)->num_blocks == 2 * 4096 / 32);
  const MemoryPlan least = *planned(flags, within(5 * kMiB));
  CHECK(least.num_blocks == 1);
  const auto shortage = shortage_of(least);
  REQUIRE(shortage);
  CHECK(shortage->exit_code == ExitCode::kSystem);
}

TEST_CASE("memory plan: it fails as loading does, and one that does not fit says all figures") {
  EngineFlags flags = flags_of(tiny_path("q8_0"));
  flags.max_model_len = 1u << 19;
  CHECK(planned(flags).error().message == "--max-model-len is 524288; this model allows 2 to 512.");
  MemoryPlan plan{
      .max_model_len = 64,
      .num_blocks = 2,
      .shape = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 1, .block_size = 32, .num_blocks = 2},
      .windows = {0},
      .process = 1000,
      .weights = 50,
      .kv_cache = 30,
      .step = {.rows = 1, .attention = 2, .logits = 3},
      .requests = 14,
      .available = 99};
  const auto shortage = shortage_of(plan);
  REQUIRE(shortage);
  CHECK(shortage->exit_code == ExitCode::kSystem);
  CHECK(shortage->shortage->required_bytes == 100);
  CHECK(shortage->shortage->available_bytes == 99);
  CHECK(shortage->message.starts_with(
      "The model needs 100 bytes of memory: 50 for weights, 30 for a KV cache of 64 tokens, 6 for a step and "
      "14 for requests; 99 are available. Lower --max-model-len, "));
  plan.available = 100;
  CHECK_FALSE(shortage_of(plan));
  plan.available = std::nullopt;
  CHECK_FALSE(shortage_of(plan));
}

TEST_CASE_FIXTURE(LongLlama,
                  "memory plan: it fits into the least limit of a tree of cgroups, or is refused") {
  flags.kv_cache_bytes = 64 * kMiB;
  const uint64_t needed = planned(flags)->needed();
  // A pod's cgroup of version 2 whose parent has the smaller limit.
  const auto plan_within = [&](double share) {
    const TemporaryFolder folder;
    const auto write = [&](const std::string& path, const std::string& content) {
      const std::filesystem::path file = folder.path() + path;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << content << '\n';
    };
    const std::string pod = "/sys/fs/cgroup/kubepods.slice/pod.slice";
    const auto limit = static_cast<uint64_t>(share * static_cast<double>(needed));
    write("/proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable: 8000000 kB");
    write("/proc/self/cgroup", "0::/kubepods.slice/pod.slice/app.scope");
    write("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
    write(pod + "/app.scope/memory.max", "max");
    write(pod + "/app.scope/memory.current", "5000000");
    write(pod + "/app.scope/memory.stat", "anon 5000000\ninactive_file 0\nactive_file 0");
    write(pod + "/memory.max", std::to_string(limit + 5'000'000));
    write(pod + "/memory.current", "6000000");
    write(pod + "/memory.stat", "anon 5000000\ninactive_file 900000\nactive_file 100000");
    return *planned(flags, within(AvailableMemory(folder.path()).bytes()));
  };
  CHECK_FALSE(shortage_of(plan_within(1.2)));
  const auto refused = shortage_of(plan_within(0.8));
  REQUIRE(refused);
  CHECK(refused->shortage->required_bytes == needed);
  CHECK(refused->shortage->available_bytes == static_cast<uint64_t>(0.8 * static_cast<double>(needed)));
}

TEST_CASE_FIXTURE(
    LongLlama,
    "memory plan: of several runners each has its part of the memory, or of what shared weights leave") {
  flags.num_runners = 4;
  const uint64_t weights = planned(flags)->weights;
  constexpr uint64_t kProcess = 1000;
  const auto available_of = [&](uint64_t of_all, uint64_t free) {
    UsableMemory usable = within(free, kProcess);
    usable.of_all_runners = of_all;
    return planned(flags, usable)->available;
  };
  const uint64_t all = weights + 400 * kMiB;
  CHECK(available_of(all, all) == all / 4 - kProcess);
  CHECK(available_of(all, 7 * kMiB) == 7 * kMiB);
  flags.weights_file = std::make_shared<MemoryFile>(*MemoryFile::create("weights"));
  CHECK(available_of(all, all) == weights + 100 * kMiB - kProcess);
  CHECK(available_of(weights, all) == weights - kProcess);
  CHECK(available_of(weights / 2, all) == weights / 2 - kProcess);
}

TEST_CASE("memory plan: flags bound what is counted as available") {
  const Result<std::unique_ptr<Backend>> backend = make_cpu_backend({.num_threads = 1});
  REQUIRE(backend.ok());
  EngineFlags flags;
  const UsableMemory all = usable_memory(flags, **backend);
  REQUIRE(all.available);
  CHECK(all.process > 0);
  CHECK_FALSE(all.of_device);
  flags.available_bytes = 12345;
  CHECK(usable_memory(flags, **backend).available == 12345);
  flags.available_bytes = 0;
  flags.num_runners = 16;
  CHECK(usable_memory(flags, **backend).of_all_runners == total_memory_bytes());
  flags.available_bytes = 12345;
  CHECK(usable_memory(flags, **backend).of_all_runners == 12345);
  flags.available_bytes = 0;
  flags.num_runners = 1;
  CHECK_FALSE(usable_memory(flags, **backend).of_all_runners);
  flags.memory_bytes = 1;
  CHECK(usable_memory(flags, **backend).available == 0);
  // The files that the process was given are not part of what the system has left, and take no more of it.
  flags.memory_bytes = 0;
  flags.held_bytes = uint64_t{1} << 50;
  CHECK(*usable_memory(flags, **backend).available > flags.held_bytes);
}

}  // namespace runnel
