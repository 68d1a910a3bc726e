// A token's logits have the same bits alone or among others, prefilled or decoded, in any chunks, on any
// number of threads, in blocks of any size and order, on either table of kernels.
#include <cstring>

#include "test/cpu-runner/model_harness.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;
using Logits = std::vector<std::vector<float>>;

constexpr uint32_t kNumIds = 90;  // almost three tiles of attention

std::vector<uint32_t> random_ids(uint32_t count, uint32_t vocab_size, std::mt19937& rng) {
  std::vector<uint32_t> ids(count);
  for (uint32_t& id : ids) id = rng() % vocab_size;
  return ids;
}

bool same_bits(const Logits& a, const Logits& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
  }
  return true;
}

// One model file for each kind of weights.
std::vector<std::unique_ptr<TemporaryFile>> models() {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  const std::pair<TensorType, TensorType> types[] = {{TensorType::kQ4_1, TensorType::kQ8_0},
                                                     {TensorType::kQ4_0, TensorType::kF16},
                                                     {TensorType::kF32, TensorType::kF32}};
  for (const auto& [matrix_type, embedding_type] : types) {
    TinyLlama model;
    model.matrix_type = matrix_type;
    model.embedding_type = embedding_type;
    if (matrix_type == TensorType::kF32) model.ffn = 72;
    files.push_back(std::make_unique<TemporaryFile>(write_tiny_llama(model).bytes()));
  }
  return files;
}

TEST_CASE("logits do not depend on threads, blocks, chunks or the instruction set") {
  constexpr uint32_t kSeed = 21;
  CAPTURE(kSeed);
  std::mt19937 rng(kSeed);
  for (const auto& file : models()) {
    ModelHarness plain(file->path(), {});
    const std::vector<uint32_t> ids = random_ids(kNumIds, plain.config().vocab_size, rng);
    const Logits wanted = plain.run(ids, 1);  // as decode steps would
    REQUIRE(wanted.size() == kNumIds);
    CHECK(same_bits(plain.run(ids, kNumIds), wanted));
    for (const bool portable : {false, true}) {
      for (const uint32_t num_threads : {1u, 2u, 3u}) {
        for (const uint32_t block_size : {8u, 16u, 32u, 64u, 256u}) {
          const uint32_t chunk = 1 + rng() % kNumIds;
          CAPTURE(portable);
          CAPTURE(num_threads);
          CAPTURE(block_size);
          CAPTURE(chunk);
          ModelHarness harness(file->path(), {num_threads, block_size, portable, /*shuffle_seed=*/chunk});
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
  for (const auto& file : models()) {
    ModelHarness alone(file->path(), {});
    ModelHarness together(file->path(), {.num_threads = 2, .block_size = 16, .shuffle_seed = 5});
    std::vector<Stream> streams(7);
    std::vector<Logits> wanted;
    for (Stream& stream : streams) {
      stream.token_ids = random_ids(1 + rng() % kNumIds, alone.config().vocab_size, rng);
      wanted.push_back(alone.run(stream.token_ids, kNumIds));
    }
    // Every step takes some streams, in random order, each with a random number of rows: decode rows and
    // prefill chunks share batches.
    const auto left = [](const Stream& stream) {
      return static_cast<uint32_t>(stream.token_ids.size()) - stream.num_done;
    };
    while (std::ranges::any_of(streams, [&](const Stream& stream) { return left(stream) > 0; })) {
      std::vector<ModelHarness::Share> shares;
      for (Stream& stream : streams) {
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
  ModelHarness first(before.path(), {});
  ModelHarness second(after.path(), {});
  CHECK_FALSE(same_bits(first.run(ids, 8), second.run(ids, 8)));
}

TEST_CASE("the backend names its arithmetic and what it runs on") {
  const TemporaryFile file(write_tiny_llama({}).bytes());
  ModelHarness fast(file.path(), {.num_threads = 2});
  ModelHarness portable(file.path(), {.portable = true});
  CHECK(fast.backend().numerics_id() == "cpu-f32-2");
  CHECK(portable.backend().numerics_id() == "cpu-f32-2");
  CHECK(fast.backend().device().starts_with("cpu, "));
  CHECK(fast.backend().device().ends_with(", 2 threads"));
  CHECK(portable.backend().device() == "cpu, portable, 1 thread");
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
  CHECK((*backend)->kv_block_bytes({30, 3, 64, 32, 1}) == 30u * 2 * 3 * 64 * 32 * 2);
}

}  // namespace
}  // namespace runnel
