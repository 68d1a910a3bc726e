// The kernels that write the KV cache and attend to it: they have the bits of the scalar reference.
#include <algorithm>
#include <bit>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cpu-runner/attention/kv_cache.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/attention_reference.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr KvType kTypes[] = {KvType::kF16, KvType::kF32, KvType::kQ8_0};
constexpr uint32_t kNowhere = 0xffffffff;  // a block that no cache has; a read of it would crash

// Writes a row by the kernels and reads it by attention. It is the only value of its sequence, so attention
// returns it.
std::vector<float> stored_and_read(const Kernels& kernels, KvType type, std::span<const float> row) {
  const auto dim = static_cast<uint32_t>(row.size());
  const KvCache cache = *KvCache::allocate({1, 1, dim, 8, 1}, type);
  const std::vector<uint32_t> block_table = {0};
  const KvCache::Slot slot = cache.slot(0, 0, block_table, 0);
  const std::vector<float> zeros(dim);
  kernels.store_key(cache.layout(), zeros.data(), slot.position, slot.key_tile);
  kernels.store_value(cache.layout(), row.data(), slot.position, slot.value_tile);
  std::vector<float> out(dim);
  const AttendQuery query{zeros.data(), out.data(), 0, 1};
  kernels.attend(cache.view(0, 0, block_table), &query, 1, {1.0f});
  return out;
}

TEST_CASE("rounding to half is that of half.h at every length, and writes nothing beyond") {
  std::mt19937 rng(14);
  for (const Kernels* kernels : kernel_tables()) {
    for (uint32_t n = 1; n < 40; ++n) {
      constexpr uint32_t kPosition = 3;
      const uint32_t width = (n + 15) / 16 * 16;
      const KvLayout layout{KvType::kF16, n, width, kTilePositions, 0, width * kTilePositions * 2};
      const std::vector<float> x = random_floats(n, rng, 1000.0f);
      const std::vector<uint16_t> untouched(width * kTilePositions, 0x1234);
      std::vector<uint16_t> keys = untouched, values = untouched;
      std::vector<uint16_t> wanted_keys = untouched, wanted_values = untouched;
      for (uint32_t d = 0; d < n; ++d) {
        wanted_keys[d * kTilePositions + kPosition] = float_to_half(x[d]);
        wanted_values[kPosition * width + d] = float_to_half(x[d]);
      }
      kernels->store_key(layout, x.data(), kPosition, reinterpret_cast<std::byte*>(keys.data()));
      kernels->store_value(layout, x.data(), kPosition, reinterpret_cast<std::byte*>(values.data()));
      REQUIRE(keys == wanted_keys);
      REQUIRE(values == wanted_values);
    }
  }
}

TEST_CASE("a cached value is rounded to its type, at every magnitude") {
  std::mt19937 rng(17);
  for (const Kernels* kernels : kernel_tables()) {
    for (const KvType type : kTypes) {
      // If the largest value of a block is below 7.7e-3, the scale of Q8_0 is a subnormal half; below 3.8e-6
      // it is 0.
      for (const float magnitude : {1.0f, 1e3f, 1e-2f, 1e-4f, 1e-5f, 3e-6f, 1e-6f, 1e-8f, 0.0f}) {
        const std::vector<float> row = random_floats(64, rng, magnitude);
        std::vector<float> wanted = reference::as_stored(type, row);
        for (float& value : wanted)
          value = std::fma(1.0f, value, 0.0f) / 1.0f;  // the operations of attention for a single value
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

TEST_CASE("a NaN or oversized value is not lost in a block of others") {
  for (const Kernels* kernels : kernel_tables()) {
    for (const KvType type : kTypes) {
      for (const float bad : {NAN, -NAN, HUGE_VALF, -HUGE_VALF}) {
        std::vector<float> row(32, 1.0f);
        row[13] = bad;
        CHECK_FALSE(std::isfinite(stored_and_read(*kernels, type, row)[13]));
      }
    }
    std::vector<float> row(32, 1.0f);
    row[5] = 1e7f;  // the scale would be 78,740; the largest half is 65,504
    for (const float value : stored_and_read(*kernels, KvType::kQ8_0, row)) CHECK_FALSE(std::isfinite(value));
  }
}

struct AttendCase {
  KvType type;
  uint32_t head_dim;
  uint32_t block_size;
  uint32_t window;  // 0: none
  std::vector<uint32_t> ends = {1, 7, 8, 31, 32, 33, 64, 65, 149, 150};
  Scoring scoring = {0.25f};
  std::optional<float> sink = std::nullopt;
};

// Compares queries at positions of every kind with the reference over the same rows. The blocks are in
// descending order. Blocks that no query sees any more are not in the table, and positions after the last one
// have NaNs.
void check_attend(const AttendCase& wanted_case, std::mt19937& rng) {
  const auto& [type, head_dim, block_size, window, ends, scoring, wanted_sink] = wanted_case;
  const float* const sink = wanted_sink ? &*wanted_sink : nullptr;
  CAPTURE(kv_type_name(type));
  CAPTURE(head_dim);
  CAPTURE(block_size);
  CAPTURE(window);
  CAPTURE(scoring.softcap);
  const uint32_t num_positions = ends.back();
  const uint32_t num_blocks = (num_positions + block_size - 1) / block_size;
  const KvCache cache = *KvCache::allocate({1, 1, head_dim, block_size, num_blocks}, type);
  std::vector<uint32_t> block_table(num_blocks);
  for (uint32_t i = 0; i < num_blocks; ++i) block_table[i] = num_blocks - 1 - i;
  std::vector<float> keys, values;
  for (uint32_t position = 0; position < num_blocks * block_size; ++position) {
    const bool is_there = position < num_positions;
    const std::vector<float> no_numbers(head_dim, NAN);
    const std::vector<float> key = is_there ? random_floats(head_dim, rng) : no_numbers;
    const std::vector<float> value = is_there ? random_floats(head_dim, rng) : no_numbers;
    const KvCache::Slot slot = cache.slot(0, 0, block_table, position);
    kPortableKernels.store_key(cache.layout(), key.data(), slot.position, slot.key_tile);
    kPortableKernels.store_value(cache.layout(), value.data(), slot.position, slot.value_tile);
    if (!is_there) continue;
    std::ranges::copy(reference::as_stored(type, key), std::back_inserter(keys));
    std::ranges::copy(reference::as_stored(type, value), std::back_inserter(values));
  }

  const std::vector<float> query = random_floats(ends.size() * head_dim, rng, 2.0f);
  const auto begin_of = [&](size_t i) { return window == 0 || ends[i] < window ? 0 : ends[i] - window; };
  std::vector<float> wanted;
  for (size_t i = 0; i < ends.size(); ++i) {
    const size_t num_values = size_t{ends[i]} * head_dim;
    std::ranges::copy(
        reference::attend(std::span(query).subspan(i * head_dim, head_dim), std::span(keys).first(num_values),
                          std::span(values).first(num_values), begin_of(i), scoring.scale, scoring.softcap,
                          sink),
        std::back_inserter(wanted));
  }
  // All queries together, then the last three alone, whose windows have passed the first blocks.
  for (const size_t first : {size_t{0}, ends.size() - 3}) {
    std::vector<float> out(query.size());
    std::vector<AttendQuery> queries;
    for (size_t i = first; i < ends.size(); ++i)
      queries.push_back({query.data() + i * head_dim, out.data() + i * head_dim, begin_of(i), ends[i], sink});
    std::vector<uint32_t> held = block_table;
    for (uint32_t i = 0; i < queries[0].first_position / block_size; ++i) held[i] = kNowhere;
    const KvView view = cache.view(0, 0, held);
    const auto from_first = [&](const std::vector<float>& all) {
      return std::span(all).subspan(first * head_dim);
    };
    for (const Kernels* kernels : kernel_tables()) {
      CAPTURE(kernels->name);
      std::ranges::fill(out, 0.0f);
      kernels->attend(view, queries.data(), static_cast<uint32_t>(queries.size()), scoring);
      REQUIRE(same_bits(from_first(out), from_first(wanted)));

      // The splits of the last query, each computed by itself and then merged.
      AttendQuery last = queries.back();
      const uint32_t first_split = last.first_position / kSplitPositions;
      const uint32_t num_splits = (last.end_position - 1) / kSplitPositions - first_split + 1;
      const size_t stride = head_dim + kPartialExtra + 3;
      std::vector<float> partials(stride * num_splits), merged(head_dim);
      for (uint32_t split = num_splits; split-- > 0;) {
        last.out = partials.data() + split * stride;
        kernels->attend_split(view, &last, 1, scoring, first_split + split);
      }
      kernels->merge_splits(partials.data(), stride, num_splits, head_dim, sink, merged.data());
      REQUIRE(same_bits(merged, std::span(wanted).last(head_dim)));
    }
  }
}

TEST_CASE("attention over shuffled blocks has the bits of the reference over contiguous rows") {
  std::mt19937 rng(15);
  for (const KvType type : kTypes) {
    for (const uint32_t head_dim : {4u, 6u, 16u, 24u, 32u, 64u, 80u, 96u, 128u, 256u}) {
      if (type == KvType::kQ8_0 && head_dim % 32 != 0) continue;
      for (const uint32_t block_size : {8u, 16u, 32u, 64u, 128u, 256u})
        check_attend({type, head_dim, block_size, 0}, rng);
    }
  }
}

TEST_CASE("attention with a cap of its scores has the bits of the reference") {
  std::mt19937 rng(20);
  const std::vector<uint32_t> ends = {1, 8, 31, 33, 255, 257, 300};
  for (const KvType type : kTypes) {
    for (const uint32_t head_dim : {32u, 96u, 256u}) {
      for (const float softcap : {0.5f, 50.0f}) {
        for (const uint32_t window : {0u, 40u})
          check_attend({type, head_dim, 32, window, ends, {0.25f, softcap}}, rng);
      }
    }
  }
}

// Sinks below, among and above the scores, whose largest are about 3.
TEST_CASE("attention with a sink has the bits of the reference") {
  std::mt19937 rng(21);
  const std::vector<uint32_t> ends = {1, 8, 31, 33, 255, 257, 300, 600};
  for (const KvType type : kTypes) {
    for (const uint32_t head_dim : {32u, 64u}) {
      for (const float sink : {-200.0f, -1.0f, 2.0f, 30.0f, 200.0f}) {
        CAPTURE(sink);
        for (const uint32_t window : {0u, 40u, 300u})
          check_attend({type, head_dim, 32, window, ends, {0.25f}, sink}, rng);
      }
    }
  }
}

TEST_CASE("a sink takes its share of the weights, and has no value") {
  // The values are 1 and the scores 0, so the result is the share of the n positions: n / (n + exp(sink)).
  const std::vector<uint32_t> block_table = {0};
  const KvCache cache = *KvCache::allocate({1, 1, 32, 64, 1}, KvType::kF32);
  const std::vector<float> zeros(32), ones(32, 1.0f);
  for (uint32_t position = 0; position < 64; ++position) {
    const KvCache::Slot slot = cache.slot(0, 0, block_table, position);
    kPortableKernels.store_key(cache.layout(), zeros.data(), slot.position, slot.key_tile);
    kPortableKernels.store_value(cache.layout(), ones.data(), slot.position, slot.value_tile);
  }
  for (const Kernels* kernels : kernel_tables()) {
    for (const float sink : {-3.0f, 0.0f, 1.5f, 6.0f}) {
      std::vector<float> out(32);
      const AttendQuery query{zeros.data(), out.data(), 0, 40, &sink};
      kernels->attend(cache.view(0, 0, block_table), &query, 1, {1.0f});
      const double wanted = 40.0 / (40.0 + std::exp(double{sink}));
      for (const float value : out) CHECK(std::abs(double{value} - wanted) < 1e-6);
    }
  }
}

TEST_CASE("attention over several splits has the bits of the reference") {
  std::mt19937 rng(19);
  for (const KvType type : kTypes) {
    for (const uint32_t head_dim : {64u, 96u}) {
      for (const uint32_t block_size : {16u, 32u, 256u}) {
        for (const uint32_t window : {0u, 37u, 256u, 300u})
          check_attend({type, head_dim, block_size, window, {200, 255, 256, 257, 300, 512, 513, 700}}, rng);
      }
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

// Queries at neighbouring positions, in any number up to the limit of a call. The rows of a prompt and the
// queries of a KV head give such calls.
TEST_CASE("any number of queries at once, beside each other, has the bits of the reference") {
  std::mt19937 rng(20);
  for (const KvType type : kTypes) {
    for (uint32_t num_queries = 3; num_queries <= kMaxQueries; ++num_queries) {
      const uint32_t per_row = 1 + rng() % 5;
      std::vector<uint32_t> ends;
      for (uint32_t i = 0; i < num_queries; ++i) ends.push_back(60 + i / per_row);
      check_attend({type, 64, 32, num_queries % 3 == 0 ? 33u : 0u, ends}, rng);
    }
  }
}

TEST_CASE("positions that a query does not see do not affect it, even NaN") {
  constexpr uint32_t kDim = 64;
  std::mt19937 rng(24);
  for (const KvType type : kTypes) {
    const KvCache cache = *KvCache::allocate({1, 1, kDim, 64, 1}, type);
    const std::vector<uint32_t> block_table = {0};
    const std::vector<float> query = random_floats(kDim, rng);
    const auto store = [&](uint32_t position, const std::vector<float>& row) {
      const KvCache::Slot slot = cache.slot(0, 0, block_table, position);
      kPortableKernels.store_key(cache.layout(), row.data(), slot.position, slot.key_tile);
      kPortableKernels.store_value(cache.layout(), row.data(), slot.position, slot.value_tile);
    };
    for (uint32_t position = 0; position < 64; ++position) store(position, random_floats(kDim, rng));
    for (const Kernels* kernels : kernel_tables()) {
      std::vector<float> before(3 * kDim), after(3 * kDim);
      const auto attend = [&](std::vector<float>& out) {
        // The third query sees positions that the first two do not see.
        const AttendQuery queries[] = {{query.data(), out.data(), 3, 40},
                                       {query.data(), out.data() + kDim, 3, 41},
                                       {query.data(), out.data() + 2 * kDim, 4, 64}};
        kernels->attend(cache.view(0, 0, block_table), queries, 3, {0.25f});
      };
      attend(before);
      for (const uint32_t position : {0u, 2u, 41u, 63u}) store(position, std::vector<float>(kDim, NAN));
      attend(after);
      CHECK(same_bits(std::span(before).first(2 * kDim), std::span(after).first(2 * kDim)));
      CHECK(std::isnan(after.back()));
      for (const uint32_t position : {0u, 2u, 41u, 63u}) store(position, random_floats(kDim, rng));
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
        "--kv-cache-type is q8_0, which stores heads in blocks of 32 values; the model's heads have 48 "
        "values. Use --kv-cache-type f16 or f32.");
}

}  // namespace
}  // namespace runnel
