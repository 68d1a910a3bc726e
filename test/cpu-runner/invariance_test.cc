// The logits of a token have the same bits whether it is computed alone or among others, in a prefill of any
// chunks or by decode steps, with any number of threads, any size and order of blocks, and any table of
// kernels.
#include "cpu-runner/isa.h"
#include "test/cpu-runner/cpu_harness.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kNumIds = 90;  // almost three tiles of attention

struct Subject {
  std::unique_ptr<TemporaryFile> file;
  KvType kv_type;

  CpuOptions with(CpuOptions options) const {
    options.kv_type = kv_type;
    return options;
  }
};

// Model files with each kind of weights, caches of each type, with and without a window. If the cache is not
// F16, heads have 32 values, which every type of cache can hold.
std::vector<Subject> subjects() {
  using enum TensorType;
  constexpr uint32_t kWindow = 37;  // more than a tile, and no multiple of any block size
  const std::pair<TinyLlama, KvType> models[] = {
      {{.matrix_type = kQ4_1, .embedding_type = kQ8_0}, KvType::kF16},
      {{.matrix_type = kQ4_0, .embedding_type = kF16, .window = kWindow}, KvType::kF16},
      {{.matrix_type = kF32, .embedding_type = kF32, .ffn = 72}, KvType::kF32},
      {{.num_heads = 2, .num_kv_heads = 1, .window = kWindow}, KvType::kF32},
      {{.num_heads = 2, .num_kv_heads = 1}, KvType::kQ8_0},
      {{.num_heads = 2, .num_kv_heads = 1, .window = kWindow}, KvType::kQ8_0},
  };
  std::vector<Subject> all;
  for (const auto& [model, kv_type] : models)
    all.push_back({std::make_unique<TemporaryFile>(write_tiny_llama(model).bytes()), kv_type});
  return all;
}

TEST_CASE("logits do not depend on threads, blocks, chunks or the instruction set") {
  constexpr uint32_t kSeed = 21;
  CAPTURE(kSeed);
  std::mt19937 rng(kSeed);
  for (const Subject& subject : subjects()) {
    const std::string path = subject.file->path();
    CAPTURE(kv_type_name(subject.kv_type));
    CpuHarness plain(path, subject.with({}));
    CAPTURE(plain.config().sliding_window);
    const std::vector<uint32_t> ids = random_ids(kNumIds, plain.config().vocab_size, rng);
    const Logits wanted = plain.run(ids, 1);  // one row at a time, as in decode steps
    REQUIRE(wanted.size() == kNumIds);
    CHECK(same_bits(plain.run(ids, kNumIds), wanted));
    for (const Kernels* kernels : usable_kernels()) {
      for (const uint32_t num_threads : {1u, 2u, 3u}) {
        for (const uint32_t block_size : {8u, 16u, 32u, 64u, 256u}) {
          const uint32_t chunk = 1 + rng() % kNumIds;
          CAPTURE(kernels->name);
          CAPTURE(num_threads);
          CAPTURE(block_size);
          CAPTURE(chunk);
          CpuHarness harness(path,
                             subject.with({num_threads, block_size, kernels->name, /*shuffle_seed=*/chunk}));
          REQUIRE(same_bits(harness.run(ids, chunk), wanted));
        }
      }
    }
  }
}

TEST_CASE("logits do not depend on what else is in the batch") {
  constexpr uint32_t kSeed = 22;
  CAPTURE(kSeed);
  std::mt19937 rng(kSeed);
  for (const Subject& subject : subjects()) {
    const std::string path = subject.file->path();
    CAPTURE(kv_type_name(subject.kv_type));
    CpuHarness alone(path, subject.with({}));
    CpuHarness together(path, subject.with({.num_threads = 2, .block_size = 16, .shuffle_seed = 5}));
    std::vector<HarnessStream> streams(7);
    std::vector<Logits> wanted;
    for (HarnessStream& stream : streams) {
      stream.token_ids = random_ids(1 + rng() % kNumIds, alone.config().vocab_size, rng);
      wanted.push_back(alone.run(stream.token_ids, kNumIds));
    }
    // Every step takes some streams, in random order, each with a random number of rows: decode rows and
    // prefill chunks share batches.
    const auto left = [](const HarnessStream& stream) {
      return static_cast<uint32_t>(stream.token_ids.size()) - stream.num_done;
    };
    while (std::ranges::any_of(streams, [&](const HarnessStream& stream) { return left(stream) > 0; })) {
      std::vector<CpuHarness::Share> shares;
      for (HarnessStream& stream : streams) {
        if (left(stream) == 0 || rng() % 3 == 0) continue;
        const uint32_t num_rows = rng() % 2 == 0 ? 1 : 1 + rng() % std::min(left(stream), 30u);
        shares.push_back({&stream, num_rows});
      }
      if (shares.empty()) continue;
      std::ranges::shuffle(shares, rng);
      together.step(shares);
    }
    for (size_t i = 0; i < streams.size(); ++i) REQUIRE(same_bits(streams[i].logits, wanted[i]));
  }
}

TEST_CASE("one weight changed changes the logits") {
  GgufWriter writer = write_tiny_llama({});
  const TemporaryFile before(writer.bytes());
  writer.tensor("blk.1.ffn_down.weight").data[7] ^= 1;
  const TemporaryFile after(writer.bytes());
  const std::vector<uint32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  CpuHarness first(before.path(), {});
  CpuHarness second(after.path(), {});
  CHECK_FALSE(same_bits(first.run(ids, 8), second.run(ids, 8)));
}

TEST_CASE("a window changes what comes after it, and nothing before") {
  constexpr uint32_t kWindow = 37;
  const TemporaryFile without(write_tiny_llama({}).bytes());
  const TemporaryFile with(write_tiny_llama({.window = kWindow}).bytes());
  std::mt19937 rng(23);
  const std::vector<uint32_t> ids = random_ids(kNumIds, 100, rng);
  const Logits all = CpuHarness(without.path(), {}).run(ids, kNumIds);
  const Logits windowed = CpuHarness(with.path(), {}).run(ids, kNumIds);
  for (uint32_t position = 0; position < kNumIds; ++position)
    CHECK((windowed[position] == all[position]) == (position < kWindow));
}

TEST_CASE("the cache's type changes the logits, and the name of the arithmetic says so") {
  const TemporaryFile file(write_tiny_llama({.num_heads = 2, .num_kv_heads = 1}).bytes());
  const std::vector<uint32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  CpuHarness f16(file.path(), {.kv_type = KvType::kF16});
  CpuHarness f32(file.path(), {.kv_type = KvType::kF32});
  CpuHarness q8_0(file.path(), {.kv_type = KvType::kQ8_0});
  CHECK(f16.backend().numerics_id() == "i8-1");
  CHECK(f32.backend().numerics_id() == "i8-1-kv-f32");
  CHECK(q8_0.backend().numerics_id() == "i8-1-kv-q8_0");
  const Logits wanted = f16.run(ids, 8);
  CHECK_FALSE(same_bits(f32.run(ids, 8), wanted));
  CHECK_FALSE(same_bits(q8_0.run(ids, 8), wanted));
}

TEST_CASE("the backend names its arithmetic and what it runs on") {
  const TemporaryFile file(write_tiny_llama({}).bytes());
  CpuHarness fast(file.path(), {.num_threads = 2});
  CpuHarness portable(file.path(), {.isa = "portable"});
  CHECK(fast.backend().numerics_id() == "i8-1");
  CHECK(portable.backend().numerics_id() == "i8-1");
  CHECK(fast.backend().device().name().starts_with("cpu, "));
  CHECK(fast.backend().device().name().ends_with(", 2 threads"));
  CHECK(portable.backend().device().name() == "cpu, portable, 1 thread");
}

TEST_CASE("heads wider than the kernels have room for are refused when the cache is made") {
  const auto backend = make_cpu_backend({.num_threads = 1});
  const auto cache = (*backend)->allocate_kv({1, 1, 512, 32, 4});
  REQUIRE_FALSE(cache.ok());
  CHECK(cache.error().exit_code == ExitCode::kBadModel);
  CHECK(cache.error().message.find("512 values") != std::string::npos);
}

TEST_CASE("a cache that no memory can hold is refused with its size") {
  const auto backend = make_cpu_backend({.num_threads = 1});
  const KvShape shape{1024, 1024, 256, 256, 0xffffffff};
  const auto cache = (*backend)->allocate_kv(shape);
  REQUIRE_FALSE(cache.ok());
  CHECK(cache.error().exit_code == ExitCode::kSystem);
  const auto refused = (*backend)->allocate_kv({1024, 1024, 256, 256, 1 << 20});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kSystem);
  CHECK(refused.error().shortage->required_bytes == uint64_t{1} << 58);
  CHECK(refused.error().shortage->available_bytes > 0u);
  CHECK(refused.error().shortage->available_bytes < uint64_t{1} << 58);
  CHECK((*backend)->kv_block_bytes({30, 3, 64, 32, 1}) == 30u * 2 * 3 * 64 * 32 * 2);
}

}  // namespace
}  // namespace runnel
