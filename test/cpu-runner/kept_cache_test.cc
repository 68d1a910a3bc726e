// A model whose KV cache outlives its runner: the next runner in the same memory, or a runner that has memory
// of its own and reads this one, goes on with all streams, and computes again what no full block holds.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "cpu-runner/cpu_backend.h"
#include "runner/commands/loaded_model.h"
#include "runner/commands/memory_plan.h"
#include "runner/formats/model_files.h"
#include "test/fixtures/engine_fixture.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/kv_files.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// Heads of 32 values, so that a Q8_0 cache can store them.
TinyLlama llama_with_window(uint32_t window) {
  return {.num_heads = 2, .num_kv_heads = 1, .window = window};
}

// What the gateway keeps of a stream.
struct KeptStream {
  std::vector<uint32_t> prompt;
  std::vector<uint32_t> answer;
  std::string salt;
};

class KeptRunners {
 public:
  explicit KeptRunners(const TinyLlama& model = llama_with_window(0))
      : file_(write_tiny_llama(model).bytes()) {
    flags.model = file_.path();
    flags.num_threads = 1;
    flags.max_num_batched_tokens = 64;
    flags.block_size = 8;
    flags.num_kvcache_blocks = 200;
  }

  EngineFlags flags;
  std::map<uint32_t, KeptStream> streams;
  uint64_t num_computed = 0;  // positions of prompts, of the last runner
  uint64_t num_adopted = 0;
  uint64_t num_dropped = 0;

  const MemoryFile& memory() const { return memories_[0]; }

  // One runner's life: it gets all streams and dies after so many steps, or at the end of all answers. It
  // lives in one of two places. from: where else it looks for what it lacks.
  void live(uint32_t num_steps, bool keeps = true, uint32_t place = 0, std::optional<uint32_t> from = {}) {
    EngineFlags used = flags;
    if (keeps) used.kv_fd = dup(memories_[place].descriptor());
    if (from) used.kv_from = {dup(memories_[*from].descriptor())};
    REQUIRE(used.open_kv_memory().ok());
    const Result<LoadedModel> loaded =
        load(used, *make_cpu_backend(used.backend_options()), [](uint64_t, uint64_t) {});
    if (!loaded.ok()) FAIL(loaded.error().message);
    Engine& engine = *loaded->engine;
    for (const auto& [id, stream] : streams)
      if (stream.answer.size() < kMaxTokens) CHECK_FALSE(engine.add(sequence_for(id, stream, used.kv_from)));
    for (uint32_t i = 0; i < num_steps && engine.has_work(); ++i) {
      for (const NewToken& token : engine.step().tokens) {
        std::vector<uint32_t>& answer = streams.at(token.request_id).answer;
        CHECK(token.index == answer.size());
        answer.push_back(token.token_id);
      }
    }
    num_computed = engine.scheduler().counts().num_prefill_tokens;
    num_adopted = engine.scheduler().blocks().pool().num_adopted();
    num_dropped = engine.scheduler().blocks().pool().num_dropped();
  }

  void add_streams(uint32_t num_streams, uint32_t num_prompt_tokens, const char* salt = "") {
    for (uint32_t i = 0; i < num_streams; ++i) {
      const auto id = static_cast<uint32_t>(streams.size()) + 1;
      std::mt19937 random(id);
      streams[id].salt = salt;
      for (uint32_t k = 0; k < num_prompt_tokens + 5 * i; ++k)
        streams[id].prompt.push_back(static_cast<uint32_t>(random() % 100));
    }
  }

  static constexpr uint32_t kMaxTokens = 40;

 private:
  static Sequence sequence_for(uint32_t id, const KeptStream& stream, std::span<const int> kv_from) {
    Sequence sequence = sampled(id, stream.prompt, kMaxTokens);
    sequence.cache_salt = stream.salt;
    sequence.kv_from.assign(kv_from.begin(), kv_from.end());
    sequence.token_ids.insert(sequence.token_ids.end(), stream.answer.begin(), stream.answer.end());
    return sequence;
  }

  TemporaryFile file_;
  MemoryFile memories_[2] = {sized_memory(uint64_t{1} << 30), sized_memory(uint64_t{1} << 30)};
};

std::vector<std::vector<uint32_t>> answers_of(const KeptRunners& runners) {
  std::vector<std::vector<uint32_t>> answers;
  for (const auto& [id, stream] : runners.streams) answers.push_back(stream.answer);
  return answers;
}

constexpr uint32_t kToTheEnd = 100'000;

// The answers of one runner that nobody ends.
std::vector<std::vector<uint32_t>> undisturbed(KeptRunners& runners) {
  const std::map<uint32_t, KeptStream> streams = runners.streams;
  runners.live(kToTheEnd, /*keeps=*/false);
  const auto answers = answers_of(runners);
  runners.streams = streams;
  return answers;
}

}  // namespace

TEST_CASE(
    "kept cache: killed after any step, streams go on with the same tokens, and less than a block is "
    "computed") {
  const TemporaryFile without(write_tiny_llama(llama_with_window(0)).bytes());
  const TemporaryFile with(write_tiny_llama(llama_with_window(12)).bytes());
  const TemporaryFile mixed(deep_gemma3().bytes());
  for (const TemporaryFile* file : {&without, &with, &mixed}) {
    for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
      CAPTURE(file == &mixed);
      CAPTURE(file == &with);
      CAPTURE(kv_type_name(type));
      for (uint32_t num_steps = 1; num_steps < 50; num_steps += 3) {
        CAPTURE(num_steps);
        KeptRunners runners;
        runners.flags.model = file->path();
        runners.flags.kv_cache_type = type;
        runners.add_streams(3, 50);
        const auto expected = undisturbed(runners);
        runners.live(num_steps);
        // A prompt without a token may not be computed yet.
        uint64_t most = 0;
        for (const auto& [id, stream] : runners.streams) {
          if (stream.answer.size() == KeptRunners::kMaxTokens) continue;
          most += stream.answer.empty() ? stream.prompt.size() : runners.flags.block_size;
        }
        runners.live(kToTheEnd);
        CHECK(answers_of(runners) == expected);
        CHECK(runners.num_computed <= most);
        CHECK(runners.num_adopted > 0);
        CHECK(runners.num_dropped == 0);
      }
    }
  }
}

TEST_CASE(
    "kept cache: of each architecture, a survivor goes on with the same tokens, and computes less than a "
    "block "
    "of each stream") {
  const auto check_survivors = [](KeptRunners& runners) {
    runners.add_streams(3, 50);
    const auto expected = undisturbed(runners);
    runners.live(12);
    for (const auto& [id, stream] : runners.streams) REQUIRE(!stream.answer.empty());
    // There and back: the first place has what was computed before, and not what came after.
    for (const uint32_t place : {1u, 0u, 1u}) {
      runners.live(10, /*keeps=*/true, place, 1 - place);
      CHECK(runners.num_computed <= 3 * runners.flags.block_size);
      CHECK(runners.num_adopted > 0);
      CHECK(runners.num_dropped == 0);
    }
    runners.live(kToTheEnd, /*keeps=*/true, 0, 1);
    CHECK(answers_of(runners) == expected);
  };
  for (const GoldenModel& model : kGoldenModels) {
    for (const KvType type : {KvType::kF16, KvType::kF32}) {
      CAPTURE(model.golden);
      CAPTURE(kv_type_name(type));
      KeptRunners runners;
      runners.flags.model = q8_0_path(model);
      runners.flags.max_model_len = model.max_positions;
      runners.flags.kv_cache_type = type;
      check_survivors(runners);
    }
  }
  const TemporaryFile mixed(deep_gemma3().bytes());
  for (const uint32_t window : {0u, 12u}) {
    for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
      CAPTURE(window);
      CAPTURE(kv_type_name(type));
      KeptRunners runners(llama_with_window(window));
      runners.flags.kv_cache_type = type;
      check_survivors(runners);
      if (window > 0) continue;
      runners.streams.clear();
      runners.flags.model = mixed.path();
      check_survivors(runners);
    }
  }
}

// What the header of the memory says that the cache is of, and the identity of the model.
std::pair<std::string, std::string> contents_and_identity(const std::string& path) {
  EngineFlags flags;
  flags.model = path;
  flags.num_threads = 1;
  flags.max_num_batched_tokens = 64;
  flags.block_size = 8;
  flags.num_kvcache_blocks = 64;
  const MemoryFile memory = sized_memory(uint64_t{1} << 30);
  flags.kv_fd = dup(memory.descriptor());
  REQUIRE(flags.open_kv_memory().ok());
  const Result<LoadedModel> loaded =
      load(flags, *make_cpu_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) FAIL(loaded.error().message);
  char contents[kMaxContentsBytes + 1] = {};
  RUNNEL_CHECK(pread(memory.descriptor(), contents, kMaxContentsBytes, 48) == kMaxContentsBytes);
  return {contents, loaded->file.identity()};
}

TEST_CASE("kept cache: its index says what the gateway looks for: the model, and the windows of groups") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const auto [contents, identity] = contents_and_identity(f32_path(model));
    CAPTURE(contents);
    CHECK(contents.find(" " + identity + " ") != std::string::npos);
    const bool is_mixed = model.name == "gemma2" || model.name == "gemma3" || model.name == "gpt-oss";
    const std::regex form(is_mixed ? R"(.* \d+x\d+x\d+x0(,\d+)+( short)? \d+)"
                                   : R"(.* \d+x\d+x\d+( short)? \d+)");
    CHECK(std::regex_match(contents, form));
  }
}

TEST_CASE("kept cache: streams of many tokens are taken over in steps that each copy a part of them") {
  TinyLlama model = llama_with_window(0);
  model.context = 1024;
  KeptRunners runners(model);
  runners.flags.num_kvcache_blocks = 800;
  runners.add_streams(6, 900);
  const auto expected = undisturbed(runners);
  runners.flags.mixed_batches = false;  // all prompts are computed before the second tokens
  runners.live(100);
  for (const auto& [id, stream] : runners.streams) REQUIRE(!stream.answer.empty());
  runners.flags.mixed_batches = true;
  runners.live(1, /*keeps=*/true, 1, 0);
  CHECK(runners.num_adopted * runners.flags.block_size >= kCopiedTokens);
  CHECK(runners.num_adopted * runners.flags.block_size < kCopiedTokens + 1000);
  runners.live(kToTheEnd, /*keeps=*/true, 1, 0);
  CHECK(answers_of(runners) == expected);
}

TEST_CASE("kept cache: however often runners die, each computes less than a block of each stream again") {
  KeptRunners runners;
  runners.flags.kv_cache_type = KvType::kQ8_0;
  runners.add_streams(4, 60, "a tenant");
  const auto expected = undisturbed(runners);
  runners.live(12);
  for (uint32_t i = 0; i < 30; ++i) {
    runners.live(1 + i % 3);
    CHECK(runners.num_computed <= 4 * runners.flags.block_size);
  }
  runners.live(kToTheEnd);
  CHECK(answers_of(runners) == expected);
}

TEST_CASE(
    "kept cache: streams that do not fit together are preempted, die and are computed with the same tokens") {
  KeptRunners runners;
  runners.flags.num_kvcache_blocks = 25;
  runners.flags.max_model_len = 150;
  runners.add_streams(5, 60);
  const auto expected = undisturbed(runners);
  for (uint32_t i = 0; i < 40; ++i) runners.live(5);
  runners.live(kToTheEnd);
  CHECK(answers_of(runners) == expected);
}

TEST_CASE("kept cache: of flipped bits in cache and index none changes a token") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  uint64_t num_dropped = 0;
  for (uint32_t round = 0; round < 20; ++round) {
    KeptRunners runners;
    runners.flags.kv_cache_type = round % 2 == 0 ? KvType::kF16 : KvType::kQ8_0;
    runners.add_streams(3, 60);
    const auto expected = undisturbed(runners);
    runners.live(20);
    struct Part {
      uint64_t offset;
      uint64_t num_bytes;
    };
    // The index, and blocks that the streams have filled.
    const uint64_t index_bytes = KvIndexView::index_bytes({"", runners.flags.block_size, 0, 200});
    const Part parts[] = {{0, index_bytes}, {uint64_t{2} << 20, 20 * 2048}};
    for (uint32_t i = 0; i < 500; ++i) {
      const Part& part = parts[random() % 2];
      const uint64_t at = part.offset + random() % part.num_bytes;
      const int file = runners.memory().descriptor();
      std::byte byte;
      REQUIRE(pread(file, &byte, 1, static_cast<off_t>(at)) == 1);
      byte ^= static_cast<std::byte>(1u << random() % 8);
      REQUIRE(pwrite(file, &byte, 1, static_cast<off_t>(at)) == 1);
    }
    runners.live(5);
    num_dropped += runners.num_dropped;
    runners.live(kToTheEnd);
    CHECK(answers_of(runners) == expected);
  }
  CHECK(num_dropped > 20);
}

TEST_CASE("kept cache: another type of cache, arithmetic, size of blocks or file takes nothing over") {
  TinyLlama floats = llama_with_window(0);
  floats.matrix_type = floats.embedding_type = TensorType::kF32;
  KeptRunners runners(floats);
  runners.add_streams(2, 60);
  const auto begin = runners.streams;
  const std::function<void(EngineFlags&)> changes[] = {
      [](EngineFlags& flags) { flags.kv_cache_type = KvType::kQ8_0; },
      [](EngineFlags& flags) { flags.activations = ActivationType::kF32; },
      [](EngineFlags& flags) { flags.block_size = 16; },
      [](EngineFlags& flags) { flags.quantize = TensorType::kQ8_0; },
  };
  const EngineFlags flags = runners.flags;
  for (const auto& change : changes) {
    runners.flags = flags;
    runners.live(20);
    change(runners.flags);
    runners.streams = begin;
    runners.live(20);
    CHECK(runners.num_adopted == 0);
    CHECK(runners.num_dropped == 0);
    runners.streams = begin;
    runners.live(20);
    CHECK(runners.num_adopted > 0);
    runners.streams = begin;
  }
}

TEST_CASE("kept cache: a context with the other of a model's two ropes takes nothing over") {
  KeptRunners runners;
  runners.flags.model = golden_model_path("phi3-f32.gguf");
  runners.flags.num_kvcache_blocks = 40;
  const uint32_t original = read_config(*ModelFile::open(runners.flags.model), "")->original_context_length;
  runners.add_streams(2, 60);
  const auto begin = runners.streams;
  const auto num_adopted_after = [&](uint32_t before, uint32_t after) {
    for (const uint32_t max_model_len : {before, after}) {
      runners.streams = begin;
      runners.flags.max_model_len = max_model_len;
      runners.live(20);
    }
    return runners.num_adopted;
  };
  CHECK(num_adopted_after(original, original + 1) == 0);
  CHECK(num_adopted_after(original + 1, original) == 0);
  CHECK(num_adopted_after(original, original - 10) > 0);
  CHECK(num_adopted_after(original + 10, original + 1) > 0);
}

TEST_CASE("kept cache: a cache that is taken over keeps its size and its context") {
  KeptRunners runners;
  runners.add_streams(1, 60);
  runners.live(5);
  runners.flags.num_kvcache_blocks = 30;
  runners.live(5);
  CHECK(runners.num_adopted > 0);
  runners.live(kToTheEnd);
}

TEST_CASE("kept cache: a cache for which there is not enough memory any more gives way to one that fits") {
  KeptRunners runners;
  runners.flags.max_num_seqs = 64;
  const auto needed_with = [&](uint32_t num_blocks) {
    EngineFlags flags = runners.flags;
    flags.num_kvcache_blocks = num_blocks;
    const auto backend = make_cpu_backend(flags.backend_options());
    const auto plan = plan_memory(flags, *read_model_file(flags), **backend, usable_memory(flags, **backend));
    REQUIRE(plan.ok());
    REQUIRE(plan->num_blocks == num_blocks);
    return plan->needed();
  };
  constexpr uint32_t kMany = 4000;
  constexpr uint32_t kFew = 30;
  runners.add_streams(1, 60);
  runners.flags.num_kvcache_blocks = kMany;
  runners.live(5);
  runners.flags.num_kvcache_blocks = kFew;
  runners.flags.available_bytes = (needed_with(kFew) + needed_with(kMany)) / 2;
  runners.live(5);
  CHECK(runners.num_adopted == 0);
  runners.live(5);
  CHECK(runners.num_adopted > 0);
}

TEST_CASE("kept cache: a descriptor that is no memory of fixed size is refused by name") {
  EngineFlags flags;
  flags.kv_fd = 999;
  CHECK(flags.open_kv_memory().error().message == "--kv-fd 999 is no open descriptor.");
  flags.kv_fd = open("/dev/null", O_RDWR);
  const Error no_memory = flags.open_kv_memory().error();
  CHECK(no_memory.exit_code == ExitCode::kTryAgain);
  CHECK(no_memory.message.find("is no file in memory") != std::string::npos);
  flags.kv_fd = memfd_create("test", MFD_ALLOW_SEALING);
  CHECK(flags.open_kv_memory().error().message.find("its size could change") != std::string::npos);
}

}  // namespace runnel
