// What attention costs on the device, as far as the emulator can count it.
#include <random>
#include <string_view>
#include <vector>

#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/settings.h"
#include "test/cuda-runner/device_attention.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

struct Costs {
  emulator::Counts counts;
  uint64_t kv_bytes;  // of the keys and values that the rows see, each sequence's once
};

Costs costs_of(KvType type, const AttentionShape& shape, const std::vector<RowPlace>& rows,
               uint32_t max_places, std::string_view kernel, bool is_apart = false) {
  const TestStream stream;
  std::mt19937 rng(48);
  const uint32_t length = rows.back().position + 1;
  DeviceSequences sequences(stream, type, shape, 256, {length}, rng);
  sequences.fill(kAttendLayer, rng);
  Attention attention(stream, sequences, shape, rows, rng);
  attention.is_apart = is_apart;
  const emulator::Counters counters;
  attention.on_device(0, static_cast<uint32_t>(rows.size()), max_places);
  const uint64_t position_bytes = sequences.kv().run_bytes() >> sequences.kv().block_shift;
  return {counters.of(kernel), 2 * length * shape.num_kv_heads * position_bytes};
}

TEST_CASE("attention's costs: a row loads each key and value once, for up to 8 queries") {
  for (const KvType type : {KvType::kF16, KvType::kF32, KvType::kQ8_0}) {
    for (const uint32_t queries_per_kv : {1u, 2u, 4u, 8u}) {
      for (const uint32_t max_places : {kNoPlaces, kEnoughPlaces}) {
        CAPTURE(kv_type_name(type));
        CAPTURE(queries_per_kv);
        const AttentionShape shape{queries_per_kv, 1, 128, 0.1f};
        const Costs costs = costs_of(type, shape, {{0, 511}}, max_places, "attend_rows");
        const emulator::Counts& counts = costs.counts;
        // Besides, each of the two splits loads the queries and the row's places, and their results are
        // joined. Each block, also one without a piece, reads entries of the list, which are half a sector.
        const uint64_t of_list = 192 * counts.blocks;
        CHECK(counts.load_bytes <=
              costs.kv_bytes + 4 * sizeof(float) * queries_per_kv * 132 + 2048 + of_list);
        CHECK(32 * counts.load_sectors <= counts.load_bytes * 21 / 20 + of_list);
        // Octets of F32 are of 32 bytes, so two lanes share a bank.
        const uint64_t turns_in_20 = type == KvType::kF32 ? 28 : 20;
        CHECK(counts.shared_turns <= counts.least_shared_turns * turns_in_20 / 20 + 256);
      }
    }
  }
}

TEST_CASE("attention's costs: queries apart cost what as many KV heads with one query do") {
  for (const KvType type : {KvType::kF16, KvType::kF32, KvType::kQ8_0}) {
    CAPTURE(kv_type_name(type));
    const auto counts_of = [&](uint32_t num_kv_heads, bool is_apart) {
      const AttentionShape shape{4, num_kv_heads, 128, 0.1f};
      return costs_of(type, shape, {{0, 511}}, kEnoughPlaces, "attend_rows", is_apart).counts;
    };
    const emulator::Counts apart = counts_of(1, true);
    const emulator::Counts alone = counts_of(4, false);
    CHECK(apart.shared_turns == alone.shared_turns);
    CHECK(apart.load_bytes >= alone.load_bytes);
    CHECK(apart.load_bytes <= alone.load_bytes * 101 / 100);
  }
}

TEST_CASE("attention's costs: rows take as many blocks as the device holds at a time") {
  const std::vector<RowPlace> rows(40, RowPlace{0, 7});
  struct Held {
    uint32_t queries_per_kv;
    uint32_t head_dim;
    uint32_t blocks;  // of a multiprocessor
  };
  for (const Held& held : {Held{1, 128, 5}, Held{4, 128, 4}, Held{8, 128, 3}, Held{4, 64, 8}}) {
    CAPTURE(held.queries_per_kv);
    CAPTURE(held.head_dim);
    const AttentionShape shape{held.queries_per_kv, 1, held.head_dim, 0.1f};
    const Costs costs = costs_of(KvType::kF16, shape, rows, kNoPlaces, "attend_rows");
    CHECK(costs.counts.blocks == emulator::settings().num_multiprocessors * held.blocks);
  }
}

TEST_CASE("attention's costs: a tile of 32 queries loads each key and value once") {
  for (const KvType type : {KvType::kF16, KvType::kF32, KvType::kQ8_0}) {
    std::vector<RowPlace> rows;
    for (uint32_t i = 0; i < 8; ++i) rows.push_back({0, 504 + i});
    const Costs costs = costs_of(type, {16, 4, 128, 0.1f}, rows, kNoPlaces, "attend_tiles");
    CAPTURE(kv_type_name(type));
    CHECK(costs.counts.load_bytes <= costs.kv_bytes * 3 / 2);
    CHECK(costs.counts.shared_turns <= costs.counts.least_shared_turns * 21 / 20);
  }
}

}  // namespace
}  // namespace runnel
