// The size of the KV cache of a loaded model, given by a flag or by a memory budget for the process. Uses the
// real backend.
#include "runner/commands/loaded_model.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "cpu-runner/cpu_backend.h"
#include "runner/commands/memory_plan.h"
#include "runner/system/memory.h"
#include "runner/system/process_memory.h"
#include "runner/system/processors.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/sequences.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint64_t kMegabyte = 1'000'000;

class ModelOnDisk {
 public:
  ModelOnDisk() {
    flags.model = file_.path();
    flags.num_threads = 1;
  }

  Result<LoadedModel> load_it() const {
    return load(flags, *make_cpu_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
  }
  Error refusal() const {
    const Result<LoadedModel> loaded = load_it();
    if (loaded.ok()) FAIL("it was loaded");
    return loaded.error();
  }

  EngineFlags flags;

 private:
  TemporaryFile file_{write_tiny_llama({.num_heads = 2, .num_kv_heads = 1}).bytes()};
};

TEST_CASE(
    "threads are as many as the cores that a runner may use beside others, unless a flag says a number") {
  const Topology topology{.nodes = {{2, {0, 1, 8, 9}}, {1, {2}}}};
  const auto threads_of = [&](uint32_t asked, uint32_t num_runners) {
    EngineFlags flags;
    flags.num_threads = asked;
    flags.num_runners = num_runners;
    flags.set_threads(topology);
    return flags.num_threads;
  };
  const uint32_t num_cores = usable_cores(topology);
  CHECK(num_cores <= 3);  // a quota may allow fewer
  CHECK(threads_of(0, 1) == num_cores);
  CHECK(threads_of(0, 2) == std::max(1u, num_cores / 2));
  CHECK(threads_of(0, 16) == 1);
  CHECK(threads_of(7, 2) == 7);
}

// K and V of one token: one head of 32 values in each of 2 layers.
constexpr uint64_t kValuesPerToken = 2 * 2 * 32;

TEST_CASE_FIXTURE(ModelOnDisk, "load: the cache has the blocks its bytes hold, for each type") {
  flags.kv_cache_bytes = kMegabyte;
  const std::pair<KvType, uint64_t> types[] = {{KvType::kF16, kValuesPerToken * 2},
                                               {KvType::kF32, kValuesPerToken * 4},
                                               {KvType::kQ8_0, kValuesPerToken / 32 * 34}};
  for (const auto& [type, token_bytes] : types) {
    flags.kv_cache_type = type;
    const Result<LoadedModel> loaded = load_it();
    REQUIRE(loaded.ok());
    CHECK(loaded->engine->config().scheduler.num_blocks == kMegabyte / (token_bytes * 32));
    CHECK(loaded->kv_cache_bytes == kMegabyte / (token_bytes * 32) * token_bytes * 32);
  }
}

TEST_CASE_FIXTURE(ModelOnDisk,
                  "load: never more blocks than full contexts can use, whatever the flag or budget") {
  flags.max_model_len = 100;
  flags.max_num_seqs = 3;
  CHECK(load_it()->engine->config().scheduler.num_blocks == 3 * 4);
  flags.memory_bytes = uint64_t{1} << 40;
  CHECK(load_it()->engine->config().scheduler.num_blocks == 3 * 4);
}

TEST_CASE_FIXTURE(ModelOnDisk,
                  "load: a cache without room for one block or for the length asked for is refused") {
  flags.kv_cache_bytes = 8191;
  CHECK(refusal().message == "--kv-cache-bytes is 8191; one block of 32 tokens takes 8192.");
  CHECK(refusal().shortage->required_bytes == 8192);
  CHECK(refusal().shortage->available_bytes == 8191);
  flags.kv_cache_bytes = 3 * 8192;
  CHECK(load_it()->engine->config().max_model_len == 97);
  flags.max_model_len = 98;
  CHECK(refusal().exit_code == ExitCode::kUsage);
  CHECK(refusal().message ==
        "--max-model-len is 98, which takes a KV cache of 32768 bytes; the cache has 24576, for 96 tokens. "
        "Start "
        "with a larger --kv-cache-bytes.");
  CHECK(refusal().shortage->required_bytes == 4 * 8192);
  CHECK(refusal().shortage->available_bytes == 3 * 8192);
}

TEST_CASE_FIXTURE(ModelOnDisk,
                  "load: the cache has as many blocks as a flag says, if requests can use them") {
  flags.num_kvcache_blocks = 3;
  const Result<LoadedModel> loaded = load_it();
  REQUIRE(loaded.ok());
  CHECK(loaded->engine->config().scheduler.num_blocks == 3);
  CHECK(loaded->kv_cache_bytes == 3 * 8192);
  CHECK(loaded->engine->config().max_model_len == 97);
  flags.max_model_len = 98;
  CHECK(refusal().message ==
        "--max-model-len is 98, which takes a KV cache of 32768 bytes; the cache has 24576, for 96 tokens. "
        "Start with a larger --num-kvcache-blocks.");
  flags.max_num_seqs = 2;
  flags.num_kvcache_blocks = 1000;
  CHECK(load_it()->engine->config().scheduler.num_blocks == 2 * 4);
}

TEST_CASE_FIXTURE(ModelOnDisk, "load: a budget that the model fills is refused with one that is enough") {
  flags.memory_bytes = 1;
  const Error refused = refusal();
  CHECK(refused.exit_code == ExitCode::kUsage);
  CHECK(refused.message.starts_with("--memory-bytes is 1; the process with the model takes "));
  CHECK(refused.message.ends_with("Start with " + std::to_string(refused.shortage->required_bytes) +
                                  " or more."));
  CHECK(refused.shortage->available_bytes == 1);
  CHECK(refused.message.find("and one block of the KV cache 8192. Start with ") != std::string::npos);
  const size_t number = refused.message.find("Start with ") + 11;
  const uint64_t enough = std::stoull(refused.message.substr(number));
  // The memory of this process differs from load to load, with sanitizers even more, so the bounds are wide.
  flags.memory_bytes = enough + enough / 2;
  CHECK(load_it().ok());
  flags.memory_bytes = enough / 2;
  CHECK_FALSE(load_it().ok());
}

TEST_CASE_FIXTURE(ModelOnDisk,
                  "load: a budget is divided into what the process takes, a reserve and the cache") {
  flags.max_num_seqs = kMaxNumSeqs;
  const uint64_t before = *private_memory_bytes();
  flags.memory_bytes = before + 60 * kMegabyte;
  const Result<LoadedModel> loaded = load_it();
  REQUIRE(loaded.ok());
  const uint64_t reserve = std::max(kMinReserveBytes, flags.memory_bytes / kReserveShare);
  const uint64_t most = flags.memory_bytes - before - reserve;
  CHECK(loaded->kv_cache_bytes <= most);
  CHECK(loaded->kv_cache_bytes >= most - 20 * kMegabyte);
}

TEST_CASE("load: with a sliding window, a cache that has room for the window has room for any context") {
  const TemporaryFile file{write_tiny_llama({.num_heads = 2, .num_kv_heads = 1, .window = 40}).bytes()};
  EngineFlags flags;
  flags.model = file.path();
  flags.num_threads = 1;
  const auto load_with = [&](uint32_t num_blocks) {
    flags.num_kvcache_blocks = num_blocks;
    Result<LoadedModel> loaded =
        load(flags, *make_cpu_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
    REQUIRE(loaded.ok());
    return *std::move(loaded);
  };
  const auto answer_of = [](const LoadedModel& loaded) {
    std::vector<uint32_t> prompt = count_from(1, 300);
    for (uint32_t& id : prompt) id %= 100;
    CHECK_FALSE(loaded.engine->add(sequence_of(1, std::move(prompt), 150)));
    std::vector<uint32_t> ids;
    while (loaded.engine->has_work())
      for (const NewToken& token : loaded.engine->step().tokens) ids.push_back(token.token_id);
    return ids;
  };
  // 40 positions lie in at most three blocks of 32.
  CHECK(load_with(2).engine->config().max_model_len == 65);
  const LoadedModel small = load_with(3);
  CHECK(small.engine->config().max_model_len == 512);
  const std::vector<uint32_t> answer = answer_of(small);
  CHECK(answer.size() == 150);
  CHECK(answer == answer_of(load_with(16)));
}

TEST_CASE("load: the factors for long texts are chosen by the context that the cache holds in the end") {
  EngineFlags flags;
  flags.model = golden_model_path("phi3-f32.gguf");
  flags.num_threads = 1;
  // The log-probabilities of the first token after a prompt, with the longest context.
  const auto outcome = [&](uint64_t kv_cache_bytes, uint32_t max_model_len) {
    flags.kv_cache_bytes = kv_cache_bytes;
    flags.max_model_len = max_model_len;
    const auto loaded = load(flags, *make_cpu_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
    REQUIRE(loaded.ok());
    Sequence request = sequence_of(1, count_from(1, 60), 1);
    request.top_logprobs = 5;
    CHECK_FALSE(loaded->engine->add(std::move(request)));
    return std::tuple(loaded->engine->config().max_model_len,
                      loaded->engine->step().tokens.at(0).logprobs->top_logprobs, loaded->numerics_id());
  };
  const ModelConfig config = *read_config(*ModelFile::open(flags.model), "");
  const uint32_t original = config.original_context_length;
  REQUIRE(original < config.context_length);
  const uint64_t token_bytes = uint64_t{2} * config.num_layers * config.num_kv_heads * config.head_dim * 2;
  const auto [long_context, by_long, long_id] = outcome(kMegabyte << 10, 0);
  const auto [short_context, by_short, short_id] = outcome(kMegabyte << 10, original);
  CHECK(long_context == config.context_length);
  CHECK(by_long != by_short);
  // A cache for a block less than the context that the model was first trained for.
  const auto [cut_context, by_cut, cut_id] = outcome((original - 32) * token_bytes, 0);
  CHECK(cut_context == original - 31);
  CHECK(by_cut == by_short);
  CHECK(long_id == "i8-1-long");
  CHECK(short_id == "i8-1-short");
  CHECK(cut_id == "i8-1-short");
  CHECK(std::get<2>(outcome(kMegabyte << 10, original + 1)) == "i8-1-long");
}

TEST_CASE("load: the numerics id of a model with one rope does not depend on the context") {
  // The second one is scaled by YaRN, from a length that it was first trained for.
  for (const char* name : {"qwen3-f32.gguf", "yarn-f32.gguf"}) {
    for (const uint32_t max_model_len : {32u, 256u}) {
      EngineFlags flags;
      flags.model = golden_model_path(name);
      flags.num_threads = 1;
      flags.max_model_len = max_model_len;
      const auto loaded = load(flags, *make_cpu_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
      REQUIRE(loaded.ok());
      CHECK(loaded->numerics_id() == "i8-1");
    }
  }
}

TEST_CASE("memory: touched pages count, and released pages do not") {
  constexpr uint64_t kBytes = 64 << 20;
  const uint64_t before = *private_memory_bytes();
  {
    const Result<Memory> touched = Memory::allocate(kBytes, "a test");
    REQUIRE(touched.ok());
    std::fill_n(touched->data(), kBytes, std::byte{1});
    CHECK(*private_memory_bytes() - before > kBytes * 9 / 10);
  }
  CHECK(*private_memory_bytes() < before + kBytes / 10);
}

}  // namespace
}  // namespace runnel
