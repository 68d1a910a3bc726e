// What the kernels write to the KV cache and how they attend to it, against the scalar reference, bit for
// bit.
#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "cpu-runner/kv_cache.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/cpu-runner/reference.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr KvType kTypes[] = {KvType::kF16, KvType::kF32, KvType::kQ8_0};
constexpr uint32_t kNowhere = 0xffffffff;  // a block that is in no cache: reading it would crash

// One row, written by the kernels and read by attention: alone in its sequence, its value is the answer.
std::vector<float> stored_and_read(const Kernels& kernels, KvType type, std::span<const float> row) {
  const auto dim = static_cast<uint32_t>(row.size());
  const KvCache cache = *KvCache::allocate({1, 1, dim, 8, 1}, type);
  const std::vector<uint32_t> block_table = {0};
  const KvCache::Slot slot = cache.slot(0, 0, block_table, 0);
  const std::vector<float> zeros(dim);
  kernels.store_kv(type, zeros.data(), dim, slot.key);
  kernels.store_kv(type, row.data(), dim, slot.value);
  std::vector<float> out(dim);
  const AttendQuery query{zeros.data(), out.data(), 0, 1};
  kernels.attend(cache.view(0, 0, block_table), &query, 1, 1.0f);
  return out;
}

TEST_CASE("rounding to half is that of half.h at every length, and writes nothing beyond") {
  std::mt19937 rng(14);
  for (const Kernels* kernels : kernel_tables()) {
    for (uint32_t n = 1; n < 40; ++n) {
      const std::vector<float> x = random_floats(n, rng, 1000.0f);
      std::vector<uint16_t> out(n + 1, 0x1234);
      kernels->store_kv(KvType::kF16, x.data(), n, reinterpret_cast<std::byte*>(out.data()));
      for (uint32_t i = 0; i < n; ++i) REQUIRE(out[i] == float_to_half(x[i]));
      REQUIRE(out[n] == 0x1234);
    }
  }
}

TEST_CASE("what comes back from a cache is the value rounded to its type, at every magnitude") {
  std::mt19937 rng(17);
  for (const Kernels* kernels : kernel_tables()) {
    for (const KvType type : kTypes) {
      // Below 1e-5 the scale of Q8_0 is a subnormal half, below 4e-6 it is none at all.
      for (const float magnitude : {1.0f, 1e3f, 1e-2f, 1e-4f, 1e-5f, 3e-6f, 1e-6f, 1e-8f, 0.0f}) {
        const std::vector<float> row = random_floats(64, rng, magnitude);
        std::vector<float> wanted = reference::as_stored(type, row);
        for (float& value : wanted)
          value = std::fma(1.0f, value, 0.0f) / 1.0f;  // as the only value attended to
        CAPTURE(kernels->name);
        CAPTURE(kv_type_name(type));
        CAPTURE(magnitude);
        REQUIRE(same_bits(stored_and_read(*kernels, type, row), wanted));
      }
    }
  }
}

TEST_CASE("Q8_0: integers that a scale of one can hold are exact, and ties go to the even one") {
  for (const Kernels* kernels : kernel_tables()) {
    std::vector<float> row(32), wanted(32);
    for (int i = 0; i < 32; ++i) row[i] = wanted[i] = static_cast<float>(i * 8 - 124);
    row[31] = wanted[31] = 127.0f;
    CHECK(stored_and_read(*kernels, KvType::kQ8_0, row) == wanted);
    row[0] = 0.5f, wanted[0] = 0.0f;
    row[1] = 1.5f, wanted[1] = 2.0f;
    row[2] = -2.5f, wanted[2] = -2.0f;
    row[3] = -126.5f, wanted[3] = -126.0f;
    CHECK(stored_and_read(*kernels, KvType::kQ8_0, row) == wanted);
  }
}

TEST_CASE("a value that is no number, or too large, is not lost in a block of others") {
  for (const Kernels* kernels : kernel_tables()) {
    for (const KvType type : kTypes) {
      for (const float bad : {NAN, -NAN, HUGE_VALF, -HUGE_VALF}) {
        std::vector<float> row(32, 1.0f);
        row[13] = bad;
        CHECK_FALSE(std::isfinite(stored_and_read(*kernels, type, row)[13]));
      }
    }
    std::vector<float> row(32, 1.0f);
    row[5] = 1e7f;  // the scale would be 78,740; halves end at 65,504
    for (const float value : stored_and_read(*kernels, KvType::kQ8_0, row)) CHECK_FALSE(std::isfinite(value));
  }
}

struct AttendCase {
  KvType type;
  uint32_t head_dim;
  uint32_t block_size;
  uint32_t window;  // 0: none
};

// Queries at positions of every kind, over blocks in descending order, against the reference over the same
// rows in one piece. Blocks that no query sees any more are gone.
void check_attend(const AttendCase& wanted_case, std::mt19937& rng) {
  const auto& [type, head_dim, block_size, window] = wanted_case;
  constexpr uint32_t kPositions = 150;
  const uint32_t num_blocks = (kPositions + block_size - 1) / block_size;
  const KvCache cache = *KvCache::allocate({1, 1, head_dim, block_size, num_blocks}, type);
  std::vector<uint32_t> block_table(num_blocks);
  for (uint32_t i = 0; i < num_blocks; ++i) block_table[i] = num_blocks - 1 - i;
  std::vector<float> keys, values;
  for (uint32_t position = 0; position < kPositions; ++position) {
    const std::vector<float> key = random_floats(head_dim, rng);
    const std::vector<float> value = random_floats(head_dim, rng);
    const KvCache::Slot slot = cache.slot(0, 0, block_table, position);
    kPortableKernels.store_kv(type, key.data(), head_dim, slot.key);
    kPortableKernels.store_kv(type, value.data(), head_dim, slot.value);
    std::ranges::copy(reference::as_stored(type, key), std::back_inserter(keys));
    std::ranges::copy(reference::as_stored(type, value), std::back_inserter(values));
  }

  const std::vector<uint32_t> ends = {1, 7, 8, 31, 32, 33, 64, 65, 149, 150};
  const std::vector<float> query = random_floats(ends.size() * head_dim, rng, 2.0f);
  // All together, and the last three alone, when a window has passed the first blocks.
  for (const size_t first : {size_t{0}, ends.size() - 3}) {
    std::vector<float> out(query.size());
    std::vector<AttendQuery> queries;
    for (size_t i = first; i < ends.size(); ++i) {
      const uint32_t begin = window == 0 || ends[i] < window ? 0 : ends[i] - window;
      queries.push_back({query.data() + i * head_dim, out.data() + i * head_dim, begin, ends[i]});
    }
    std::vector<uint32_t> held = block_table;
    for (uint32_t i = 0; i < queries[0].first_position / block_size; ++i) held[i] = kNowhere;
    for (const Kernels* kernels : kernel_tables()) {
      kernels->attend(cache.view(0, 0, held), queries.data(), static_cast<uint32_t>(queries.size()), 0.25f);
      for (size_t i = first; i < ends.size(); ++i) {
        CAPTURE(kernels->name);
        CAPTURE(kv_type_name(type));
        CAPTURE(head_dim);
        CAPTURE(block_size);
        CAPTURE(window);
        CAPTURE(ends[i]);
        const size_t num_values = size_t{ends[i]} * head_dim;
        const std::vector<float> wanted = reference::attend(
            std::span(query).subspan(i * head_dim, head_dim), std::span(keys).first(num_values),
            std::span(values).first(num_values), queries[i - first].first_position, 0.25f);
        REQUIRE(same_bits(std::span(out).subspan(i * head_dim, head_dim), wanted));
      }
    }
  }
}

TEST_CASE("attention over shuffled blocks has the bits of the reference over contiguous rows") {
  std::mt19937 rng(15);
  for (const KvType type : kTypes) {
    for (const uint32_t head_dim : {4u, 16u, 24u, 32u, 64u, 80u, 96u, 256u}) {
      if (type == KvType::kQ8_0 && head_dim % 32 != 0) continue;
      for (const uint32_t block_size : {8u, 16u, 32u, 64u, 128u, 256u})
        check_attend({type, head_dim, block_size, 0}, rng);
    }
  }
}

TEST_CASE("a window sees its last positions alone, and blocks before it are not read") {
  std::mt19937 rng(18);
  for (const KvType type : kTypes) {
    for (const uint32_t window : {1u, 2u, 7u, 8u, 31u, 32u, 33u, 64u, 100u, 149u, 150u, 151u, 0xffffffffu}) {
      for (const uint32_t block_size : {8u, 32u, 64u}) check_attend({type, 64, block_size, window}, rng);
    }
  }
}

TEST_CASE("a cache knows its bytes, and refuses heads that its type has no blocks for") {
  const KvShape shape{30, 3, 64, 32, 1};
  CHECK(KvCache::block_bytes(shape, KvType::kF16) == 30u * 2 * 3 * 64 * 32 * 2);
  CHECK(KvCache::block_bytes(shape, KvType::kF32) == 30u * 2 * 3 * 64 * 32 * 4);
  CHECK(KvCache::block_bytes(shape, KvType::kQ8_0) == 30u * 2 * 3 * 32 * (64 / 32 * 34));
  CHECK(KvCache::allocate({1, 1, 48, 32, 4}, KvType::kF16).ok());
  const Result<KvCache> refused = KvCache::allocate({1, 1, 48, 32, 4}, KvType::kQ8_0);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kUsage);
  CHECK(refused.error().message ==
        "--kv-cache-type is q8_0, which stores heads in blocks of 32 values; the model's have 48. Start with "
        "f16 or f32.");
}

}  // namespace
}  // namespace runnel
