// Models in which some layers have a window and others see all positions: what windows have left is given
// back, and no token depends on it.
#include <algorithm>
#include <random>

#include "cpu-runner/attention/kv_cache.h"
#include "runner/commands/loaded_model.h"
#include "runner/commands/memory_plan.h"
#include "runner/engine/kv_windows.h"
#include "test/cpu-runner/cpu_harness.h"
#include "test/fixtures/engine_fixture.h"
#include "test/fixtures/golden_models.h"

namespace runnel {
namespace {

using namespace test;

// Gemma 3 with groups of one layer, and with groups of two.
class MixedModels {
 public:
  std::vector<std::string> paths() const { return {golden_model_path("gemma3-q8_0.gguf"), deep_.path()}; }

 private:
  TemporaryFile deep_{deep_gemma3().bytes()};
};

LoadedModel loaded_mixed(const EngineFlags& flags) {
  Result<LoadedModel> loaded = load(flags, *make_cpu_backend(flags.backend_options()), {});
  if (!loaded.ok()) FAIL(loaded.error().message);
  return *std::move(loaded);
}

EngineFlags mixed_flags(const std::string& path) {
  EngineFlags flags;
  flags.model = path;
  flags.num_threads = 1;
  flags.block_size = 8;
  flags.max_num_batched_tokens = 48;
  flags.num_kvcache_blocks = 1000;
  return flags;
}

std::vector<uint32_t> random_prompt(uint32_t seed, uint32_t num_tokens) {
  std::mt19937 random(seed);
  return random_ids(num_tokens, 270, random);
}

}  // namespace

TEST_CASE_FIXTURE(MixedModels, "mixed windows: logits have the same bits if nothing is given back") {
  for (const std::string& path : paths()) {
    for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
      CAPTURE(path);
      CAPTURE(kv_type_name(type));
      const std::vector<uint32_t> ids = random_prompt(3, 150);
      CpuHarness keeping(path, {.kv_type = type});
      keeping.keeps_unseen = true;
      const Logits wanted = keeping.run(ids, 40);
      for (const uint32_t block_size : {8u, 16u, 64u}) {
        CpuHarness giving(path,
                          {.num_threads = 2, .block_size = block_size, .shuffle_seed = 5, .kv_type = type});
        CHECK(same_bits(giving.run(ids, 1 + block_size), wanted));
      }
    }
  }
}

TEST_CASE_FIXTURE(MixedModels,
                  "mixed windows: a long answer holds the blocks of its windows, not of all layers") {
  for (const std::string& path : paths()) {
    CAPTURE(path);
    const LoadedModel loaded = loaded_mixed(mixed_flags(path));
    Engine& engine = *loaded.engine;
    const std::vector<uint32_t>& windows = engine.config().scheduler.windows;
    const auto num_windows = static_cast<uint32_t>(windows.size() - std::ranges::count(windows, 0u));
    REQUIRE(num_windows == 6);
    CHECK_FALSE(engine.add(sampled(1, random_prompt(1, 100), 300)));
    uint32_t num_tokens = 100, num_held = 0;
    while (engine.has_work()) {
      num_tokens += static_cast<uint32_t>(engine.step().tokens.size());
      if (!engine.has_work()) break;
      num_held = engine.scheduler().blocks().pool().num_blocks() - engine.num_free_blocks();
      // A window of 20 positions lies in four blocks of 8; twice as many while the prompt is computed.
      const uint32_t of_windows = num_windows * (num_tokens == 100 ? 8 : 4);
      CHECK(num_held <= num_tokens / 8 + 1 + of_windows);
    }
    CHECK(num_tokens == 400);
    CHECK(num_held < 7 * 400 / 8 / 4);
  }
}

TEST_CASE_FIXTURE(MixedModels,
                  "mixed windows: what is known of a text is not computed again, with the same tokens") {
  for (const std::string& path : paths()) {
    CAPTURE(path);
    // A conversation: each prompt is the one before, its answer, and more.
    std::vector<uint32_t> conversation = random_prompt(7, 120);
    const LoadedModel warm = loaded_mixed(mixed_flags(path));
    for (uint32_t turn = 1; turn <= 4; ++turn) {
      const LoadedModel cold = loaded_mixed(mixed_flags(path));
      const Sequence request = sampled(turn, conversation, 30);
      for (const LoadedModel* each : {&warm, &cold}) CHECK_FALSE(each->engine->add(request));
      const uint64_t before = warm.engine->scheduler().counts().num_prefill_tokens;
      const std::vector<uint32_t> answer = run(*cold.engine)[turn];
      CHECK(run(*warm.engine)[turn] == answer);
      const uint64_t computed = warm.engine->scheduler().counts().num_prefill_tokens - before;
      CHECK(cold.engine->scheduler().counts().num_prefill_tokens == conversation.size());
      // All but the last block and what came after the answer.
      if (turn > 1) CHECK(computed <= 10 + 2 * 8);
      conversation.insert(conversation.end(), answer.begin(), answer.end());
      const std::vector<uint32_t> more = random_prompt(turn, 10);
      conversation.insert(conversation.end(), more.begin(), more.end());
    }
  }
}

TEST_CASE_FIXTURE(MixedModels,
                  "mixed windows: requests that are preempted have the tokens of a roomy cache") {
  for (const std::string& path : paths()) {
    CAPTURE(path);
    EngineFlags flags = mixed_flags(path);
    flags.max_model_len = 120;
    Answers answers[2];
    uint64_t num_preempted = 0;
    for (const bool is_roomy : {true, false}) {
      flags.num_kvcache_blocks = is_roomy ? 1000 : 15 + 6 * 4;
      const LoadedModel loaded = loaded_mixed(flags);
      CHECK(loaded.engine->config().max_model_len == 120);
      for (uint32_t id = 1; id <= 6; ++id)
        CHECK_FALSE(loaded.engine->add(sampled(id, random_prompt(id, 6 * id), 60)));
      answers[is_roomy] = run(*loaded.engine);
      num_preempted = loaded.engine->scheduler().counts().num_preemptions;
    }
    CHECK(answers[0] == answers[1]);
    CHECK(num_preempted > 0);
  }
}

TEST_CASE_FIXTURE(MixedModels, "mixed windows: the plan counts them, byte by byte") {
  for (const std::string& path : paths()) {
    CAPTURE(path);
    EngineFlags flags = mixed_flags(path);
    flags.num_kvcache_blocks = 0;
    flags.kv_cache_bytes = uint64_t{1} << 40;
    flags.max_num_seqs = 1;
    const Result<ModelFile> file = read_model_file(flags);
    const auto backend = make_cpu_backend(flags.backend_options());
    REQUIRE((file.ok() && backend.ok()));
    const auto planned = [&] { return plan_memory(flags, *file, **backend, {}); };
    const MemoryPlan whole = *planned();
    const LoadedModel loaded = loaded_mixed(flags);
    CHECK(whole.kv_cache == loaded.kv_cache_bytes);
    CHECK(whole.max_model_len == 512);
    const uint64_t block_bytes = whole.kv_cache / whole.num_blocks;
    CHECK(block_bytes == KvCache::block_bytes(whole.shape, KvType::kF16));
    // 64 blocks of the group without a window, and twice a window of each other.
    CHECK(whole.num_blocks == 64 + 6 * 8);
    // The least cache for the whole context, and one block less.
    flags.kv_cache_bytes = (64 + 6 * 4) * block_bytes;
    CHECK(planned()->max_model_len == 512);
    flags.kv_cache_bytes -= block_bytes;
    CHECK(planned()->max_model_len == 63 * 8 + 1);
    flags.max_model_len = 512;
    CHECK(planned().error().exit_code == ExitCode::kUsage);
    flags.max_model_len = 0;
    // One block for each group is the least.
    flags.kv_cache_bytes = 7 * block_bytes;
    CHECK(planned()->max_model_len == 9);
    flags.kv_cache_bytes -= 1;
    CHECK(planned().error().message == "--kv-cache-bytes is " + std::to_string(7 * block_bytes - 1) +
                                           "; one block of 8 tokens takes " +
                                           std::to_string(7 * block_bytes) + ".");
    flags.kv_cache_bytes = 0;
    flags.num_kvcache_blocks = 6;
    CHECK(planned().error().message ==
          "--num-kvcache-blocks is 6; this model takes at least 7, one for each of its groups of layers.");
  }
}

TEST_CASE("mixed windows: 131,072 tokens of Gemma 3 12B take 8.3 GiB, not 48") {
  ModelConfig config{};
  config.num_layers = 48;
  config.num_heads = 16;
  config.num_kv_heads = 8;
  config.head_dim = 256;
  config.local_window = 1024;
  config.global_every = 6;
  constexpr uint32_t kTokens = 131'072;
  const auto gib_of = [&] {
    const uint64_t num_blocks = num_required_blocks(kTokens, 32, kv_groups_of(config).windows);
    return static_cast<double>(num_blocks *
                               KvCache::block_bytes(kv_shape_of(config, 32, 0, kTokens), KvType::kF16)) /
           static_cast<double>(uint64_t{1} << 30);
  };
  CHECK(gib_of() > 8.3);
  CHECK(gib_of() < 8.35);
  config.local_window = 0;
  CHECK(gib_of() == 48.0);
}

}  // namespace runnel
