// Attention: it has the bits of the formula in scalar code, and does not depend on how rows are computed
// together.
#include "cuda-runner/kernels/attend.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <vector>

#include "cuda-runner/kernels/rope_store.h"
#include "test/cuda-runner/cpu_twin.h"
#include "test/cuda-runner/device_attention.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;
using reference::Ready;

constexpr KvType kTypes[] = {KvType::kF16, KvType::kF32, KvType::kQ8_0};
constexpr float kScale = 0.25f;

struct AttendCase {
  KvType type;
  AttentionShape shape;
  uint32_t block_size;
  std::vector<uint32_t> lengths;
  std::vector<RowPlace> rows;
  bool has_sinks = false;
};

// Checks rows that are cut, and rows whose splits are computed one after the other, each with queries that
// are computed together and apart.
void check_attend(const TestStream& stream, const AttendCase& wanted_case, std::mt19937& rng) {
  const auto& [type, shape, block_size, lengths, rows, has_sinks] = wanted_case;
  CAPTURE(kv_type_name(type));
  CAPTURE(shape.num_heads);
  CAPTURE(shape.num_kv_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.window);
  CAPTURE(block_size);
  DeviceSequences sequences(stream, type, shape, block_size, lengths, rng);
  sequences.fill(kAttendLayer, rng);
  Attention attention(stream, sequences, shape, rows, rng);
  attention.has_sinks = has_sinks;
  const Ready wanted = attention.wanted_rows();
  const auto num_rows = static_cast<uint32_t>(rows.size());
  for (const bool is_apart : {false, true}) {
    CAPTURE(is_apart);
    attention.is_apart = is_apart;
    REQUIRE(attention.on_device(0, num_rows, kEnoughPlaces)->is(wanted));
    REQUIRE(attention.on_device(0, num_rows, kNoPlaces)->is(wanted));
  }
}

TEST_CASE("attend: over shuffled blocks, bits of the reference, for each type, size of head and of block") {
  const TestStream stream;
  std::mt19937 rng(36);
  for (const KvType type : kTypes) {
    for (const uint32_t head_dim : {4u, 16u, 20u, 32u, 64u, 80u, 128u, 256u}) {
      if (type == KvType::kQ8_0 && head_dim % 32 != 0) continue;
      check_attend(stream, {type, {2, 1, head_dim, kScale}, 32, {40, 262}, {{0, 0}, {1, 261}, {0, 33}}}, rng);
    }
    for (const uint32_t block_size : {8u, 16u, 64u, 128u, 256u})
      check_attend(stream, {type, {2, 1, 32, kScale}, block_size, {300, 9}, {{0, 299}, {0, 255}, {1, 7}}},
                   rng);
  }
}

TEST_CASE("attend: one or more queries share a KV head") {
  const TestStream stream;
  std::mt19937 rng(37);
  for (const uint32_t queries_per_kv : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u}) {
    for (const uint32_t num_kv_heads : {1u, 3u}) {
      const AttentionShape shape{queries_per_kv * num_kv_heads, num_kv_heads, 16, kScale};
      check_attend(stream, {KvType::kF16, shape, 16, {90}, {{0, 89}, {0, 5}}}, rng);
    }
  }
}

TEST_CASE("attend: a window sees its last positions alone, and blocks before it are not read") {
  const TestStream stream;
  std::mt19937 rng(38);
  for (const KvType type : kTypes) {
    for (const uint32_t window : {1u, 2u, 31u, 32u, 33u, 100u, 255u, 256u, 257u, 600u, 0xffffffffu}) {
      const AttentionShape shape{2, 1, 32, kScale, window};
      check_attend(stream, {type, shape, window % 2 == 0 ? 8u : 64u, {525}, {{0, 524}, {0, 520}}}, rng);
    }
  }
}

// Rows of a prompt at the positions first to first + count - 1 of a sequence.
std::vector<RowPlace> prompt_rows(uint32_t sequence, uint32_t first, uint32_t count) {
  std::vector<RowPlace> rows;
  for (uint32_t i = 0; i < count; ++i) rows.push_back({sequence, first + i});
  return rows;
}

void check_tiles(const TestStream& stream, KvType type, const AttentionShape& shape, uint32_t block_size,
                 uint32_t first, uint32_t count, std::mt19937& rng, bool has_sinks = false) {
  CAPTURE(kv_type_name(type));
  CAPTURE(shape.num_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.window);
  CAPTURE(first);
  CAPTURE(count);
  DeviceSequences sequences(stream, type, shape, block_size, {first + count}, rng);
  sequences.fill(kAttendLayer, rng);
  Attention attention(stream, sequences, shape, prompt_rows(0, first, count), rng);
  attention.has_sinks = has_sinks;
  REQUIRE(attention.num_tiles() > 0);
  REQUIRE(attention.on_device(0, count, kNoPlaces)->is(attention.wanted_rows()));
}

TEST_CASE("attend: capped scores have the bits of the reference, of rows and in tiles") {
  const TestStream stream;
  std::mt19937 rng(50);
  for (const KvType type : kTypes) {
    for (const float softcap : {0.5f, 50.0f}) {
      for (const uint32_t head_dim : {32u, 128u, 256u}) {
        AttentionShape shape{8, 2, head_dim, kScale, 40};
        shape.softcap = softcap;
        check_attend(stream, {type, shape, 32, {300, 50}, {{0, 299}, {1, 33}}}, rng);
        shape.window = 0;
        check_attend(stream, {type, shape, 32, {300, 50}, {{0, 299}, {1, 33}}}, rng);
        if (head_dim <= 128) check_tiles(stream, type, shape, 16, 250, 16, rng);
      }
    }
  }
}

TEST_CASE("attend: a sink has the bits of the reference, of rows that are cut and whole, and in tiles") {
  const TestStream stream;
  std::mt19937 rng(51);
  for (const KvType type : kTypes) {
    for (const uint32_t window : {0u, 40u}) {
      for (const auto& [num_heads, head_dim] :
           {std::pair(8u, 64u), std::pair(2u, 32u), std::pair(6u, 256u)}) {
        const AttentionShape shape{num_heads, 2, head_dim, kScale, window};
        check_attend(stream, {type, shape, 32, {600, 50}, {{0, 599}, {1, 33}, {0, 255}}, true}, rng);
      }
      check_tiles(stream, type, {16, 2, 64, kScale, window}, 16, 250, 16, rng, true);
    }
  }
}

TEST_CASE("attend: random shapes, with seeds") {
  const TestStream stream;
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  const auto below = [&](uint32_t count) { return static_cast<uint32_t>(rng() % count); };
  for (int i = 0; i < 12; ++i) {
    const KvType type = kTypes[below(3)];
    const uint32_t num_kv_heads = 1 + below(3);
    const uint32_t head_dim = type == KvType::kQ8_0 ? 32 * (1 + below(4)) : 2 * (1 + below(64));
    const uint32_t window = below(2) == 0 ? 0 : 1 + below(400);
    const AttentionShape shape{num_kv_heads * (1 + below(5)), num_kv_heads, head_dim, kScale, window};
    const std::vector<uint32_t> lengths = {1 + below(600), 1 + below(100)};
    const std::vector<RowPlace> rows = {{0, lengths[0] - 1}, {1, below(lengths[1])}, {0, below(lengths[0])}};
    check_attend(stream, {type, shape, 8u << below(6), lengths, rows, below(2) == 0}, rng);
  }
}

TEST_CASE("attend: a row has the same bits alone, among few and among many, and on the CPU") {
  const TestStream stream;
  std::mt19937 rng(39);
  for (const KvType type : kTypes) {
    constexpr uint32_t kManyRows = 65;
    const AttentionShape shape{4, 2, 32, kScale};
    DeviceSequences sequences(stream, type, shape, 16, {300, 80}, rng);
    sequences.fill(kAttendLayer, rng);
    std::vector<RowPlace> rows;
    for (uint32_t i = 0; i < kManyRows; ++i) rows.push_back({i % 2, i % 2 == 0 ? 299 - i : i});
    const Attention attention(stream, sequences, shape, rows, rng);
    const auto all = attention.on_device(0, kManyRows, kNoPlaces)->values.values();
    const auto few = attention.on_device(0, kManyRows / 2, kEnoughPlaces)->values.values();
    const auto one = attention.on_device(2, 1, kEnoughPlaces)->values.values();
    CHECK(bits_of(few) == bits_of({all.begin(), all.begin() + few.size()}));
    CHECK(bits_of(one) ==
          bits_of({all.begin() + 2 * attention.width(), all.begin() + 3 * attention.width()}));

    for (uint32_t head = 0; head < shape.num_heads; ++head) {
      const auto seen = sequences.seen_by(rows[2], head / 2);
      const auto twin = cpu_attend(type, attention.query(2, head), seen.keys, seen.values, 0, kScale);
      const auto begin = one.begin() + head * shape.head_dim;
      CHECK(bits_of(twin) == bits_of({begin, begin + shape.head_dim}));
    }
  }
}

TEST_CASE("attend: more pieces than blocks are taken in turns") {
  const TestStream stream;
  std::mt19937 rng(40);
  const AttentionShape shape{32, 32, 4, kScale};
  DeviceSequences sequences(stream, KvType::kF16, shape, 32, {520}, rng);
  sequences.fill(kAttendLayer, rng);
  std::vector<RowPlace> rows(attend_blocks(KvType::kF16, shape) / shape.num_heads + 1, RowPlace{0, 7});
  rows.back().position = 519;
  const Attention attention(stream, sequences, shape, rows, rng);
  const Ready wanted = attention.wanted_rows();
  const auto num_rows = static_cast<uint32_t>(rows.size());
  CHECK(attention.on_device(0, num_rows, kEnoughPlaces)->is(wanted));
  CHECK(attention.on_device(0, num_rows, kNoPlaces)->is(wanted));
}

TEST_CASE("attend: more splits than lanes are joined") {
  const TestStream stream;
  std::mt19937 rng(43);
  const AttentionShape shape{2, 2, 32, kScale};
  const std::vector<uint32_t> lengths = {33 * kAttendSplit, 64 * kAttendSplit + 1};
  DeviceSequences sequences(stream, KvType::kQ8_0, shape, 256, lengths, rng);
  sequences.fill(kAttendLayer, rng);
  Attention attention(stream, sequences, shape, {{0, lengths[0] - 1}, {1, lengths[1] - 1}}, rng);
  for (const bool has_sinks : {false, true}) {
    attention.has_sinks = has_sinks;
    CHECK(attention.on_device(0, 2, kEnoughPlaces)->is(attention.wanted_rows()));
  }
}

// Rows that are the last of their sequences.
struct RotatingCase {
  KvType type;
  AttentionShape shape;
  Rope rope;
  bool has_norms;
  std::vector<uint32_t> lengths;
};

// Attention that rotates and stores does what rope_store and attention do.
void check_rotating(const TestStream& stream, const RotatingCase& wanted_case, std::mt19937& rng) {
  const auto& [type, shape, rope, has_norms, lengths] = wanted_case;
  CAPTURE(kv_type_name(type));
  CAPTURE(shape.num_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.window);
  CAPTURE(rope.rotary_dim);
  CAPTURE(rope.interleaved);
  CAPTURE(has_norms);
  REQUIRE(attend_rotates(shape));
  DeviceSequences sequences(stream, type, shape, 32, lengths, rng);
  sequences.fill(kAttendLayer, rng);
  std::vector<RowPlace> rows;
  for (uint32_t i = 0; i < lengths.size(); ++i) rows.push_back({i, lengths[i] - 1});
  const auto num_rows = static_cast<uint32_t>(rows.size());
  const uint32_t width = shape.num_heads * shape.head_dim;
  const std::vector<float> made = random_floats(size_t{num_rows} * sequences.qkv_stride(), rng, 2.0f);
  const DeviceArray<float> angles(
      stream, random_floats(std::max(size_t{num_rows} * rope.rotary_dim, size_t{1}), rng));
  const DeviceArray<float> gains(stream, random_floats(shape.head_dim, rng));
  const HeadNorm norm{has_norms, gains.read_view(), 1e-5f};
  const Rotation rotation{rope, {norm, norm}, angles.read_view()};
  const DeviceStep step = sequences.step(rows);
  for (const auto& [max_places, is_apart] : {std::pair(kEnoughPlaces, false), std::pair(kNoPlaces, false),
                                             std::pair(kEnoughPlaces, true), std::pair(kNoPlaces, true)}) {
    CAPTURE(max_places);
    CAPTURE(is_apart);
    const DeviceArray<float> qkv(stream, made);
    const DeviceWork work(stream, shape, num_rows, max_places, is_apart);
    AttendInputs inputs{shape,           kAttendLayer,
                        num_rows,        step.view(),
                        work.plan(rows), {qkv.view(), sequences.qkv_stride()},
                        sequences.kv(),  true,
                        rotation};
    REQUIRE(inputs.work.num_tiles == 0);
    REQUIRE(work.is_apart() == (is_apart && attend_groups(shape) < shape.num_heads));
    sequences.fill(kAttendLayer, rng);  // also the positions of the rows, whose values nobody may see
    const DeviceReady rotating(stream, width, num_rows);
    require_success(attend(inputs, kMaxAttendPositions, work.workspace(), rotating.view(), stream));
    const std::vector<uint8_t> stored = sequences.bytes();
    work.require_no_arrivals();
    REQUIRE(bits_of(qkv.values()) == bits_of(made));

    const DeviceReady wanted(stream, width, num_rows);
    require_success(
        rope_store(shape, rotation, step.view(), num_rows, inputs.qkv, sequences.kv(), kAttendLayer, stream));
    inputs.rotates = false;
    require_success(attend(inputs, kMaxAttendPositions, work.workspace(), wanted.view(), stream));
    REQUIRE(sequences.bytes() == stored);
    REQUIRE(bits_of(rotating.values.values()) == bits_of(wanted.values.values()));
    REQUIRE(rotating.quants.values() == wanted.quants.values());
    work.require_no_arrivals();
  }
}

TEST_CASE("attend: rows that are rotated and stored on the way are as if that was done before") {
  const TestStream stream;
  std::mt19937 rng(49);
  const std::vector<uint32_t> lengths = {600, 1, 32, 33, 256, 257, 9};
  for (const KvType type : kTypes) {
    for (const uint32_t head_dim : {32u, 64u, 128u, 256u}) {
      const bool is_interleaved = head_dim == 64;
      const AttentionShape shape{head_dim == 256 ? 4u : 8u, 1, head_dim, kScale};
      check_rotating(stream, {type, shape, {head_dim, is_interleaved}, head_dim != 128, lengths}, rng);
    }
    check_rotating(stream, {type, {6, 2, 64, kScale, 40}, {32, true}, true, {600, 39, 295}}, rng);
    check_rotating(stream, {type, {3, 3, 32, kScale, 1}, {16, false}, false, {513, 256}}, rng);
    check_rotating(stream, {type, {4, 2, 96, kScale}, {0, false}, true, {40, 300}}, rng);
  }
  check_rotating(stream, {KvType::kF16, {4, 2, 20, kScale}, {12, false}, true, {33, 290}}, rng);
}

AttentionShape tiled_shape(uint32_t queries_per_kv, uint32_t head_dim, uint32_t window = 0) {
  return {2 * queries_per_kv, 2, head_dim, kScale, window};
}

TEST_CASE("attend: rows of a prompt are computed in tiles, with the bits that each has alone") {
  const TestStream stream;
  std::mt19937 rng(45);
  for (const KvType type : kTypes) {
    for (const uint32_t queries_per_kv : {8u, 7u})
      check_tiles(stream, type, tiled_shape(queries_per_kv, 32), 16, 0, 17, rng);
    check_tiles(stream, type, tiled_shape(8, 128), 32, 27, 13, rng);
    check_tiles(stream, type, tiled_shape(8, 96), 8, 250, 14, rng);
  }
  check_tiles(stream, KvType::kF16, tiled_shape(8, 20), 16, 30, 14, rng);
  for (const uint32_t queries_per_kv : {1u, 2u, 3u, 4u, 5u})
    check_tiles(stream, KvType::kF16, tiled_shape(queries_per_kv, 4), 64, 3, 4 * (32 / queries_per_kv), rng);
}

TEST_CASE("attend: rows of tiles see their windows alone, also where splits end") {
  const TestStream stream;
  std::mt19937 rng(46);
  for (const uint32_t window : {1u, 5u, 32u, 100u, 257u, 600u})
    check_tiles(stream, window % 2 == 0 ? KvType::kF16 : KvType::kQ8_0, tiled_shape(8, 32, window), 16, 505,
                13, rng);
}

TEST_CASE("attend: tiles beside rows that are cut and rows that are whole") {
  const TestStream stream;
  std::mt19937 rng(47);
  for (const uint32_t head_dim : {20u, 32u}) {
    const AttentionShape shape = tiled_shape(8, head_dim);
    DeviceSequences sequences(stream, KvType::kF16, shape, 16, {600, 40}, rng);
    sequences.fill(kAttendLayer, rng);
    std::vector<RowPlace> rows = {{0, 599}, {0, 3}};
    std::ranges::copy(prompt_rows(1, 20, 18), std::back_inserter(rows));
    rows.push_back({0, 255});
    const Attention attention(stream, sequences, shape, rows, rng);
    CHECK(attention.num_tiles() == 5);
    CHECK(attention.on_device(0, 21, kEnoughPlaces)->is(attention.wanted_rows()));
    const auto kept = attention.on_device(0, 21, kEnoughPlaces, 2, -1.0f)->values.values();
    CHECK(std::all_of(kept.begin() + 2 * attention.width(), kept.end(),
                      [](float value) { return value == -1.0f; }));
  }
}

TEST_CASE("attend: rows that a step has lost are left alone") {
  const TestStream stream;
  std::mt19937 rng(44);
  const AttentionShape shape{2, 1, 32, kScale};
  DeviceSequences sequences(stream, KvType::kF16, shape, 16, {300, 300}, rng);
  sequences.fill(kAttendLayer, rng);
  const Attention attention(stream, sequences, shape, {{0, 3}, {0, 290}, {1, 9}, {1, 299}}, rng);
  const auto all = attention.on_device(0, 4, kEnoughPlaces, 4, -1.0f)->values.values();
  const auto kept = attention.on_device(0, 4, kEnoughPlaces, 2, -1.0f)->values.values();
  const auto lost = kept.begin() + 2 * attention.width();
  CHECK(bits_of({kept.begin(), lost}) == bits_of({all.begin(), all.begin() + 2 * attention.width()}));
  CHECK(std::all_of(lost, kept.end(), [](float value) { return value == -1.0f; }));
}

TEST_CASE("attend: captured once, it is right wherever the rows are when it runs, few pieces or many") {
  const TestStream stream;
  std::mt19937 rng(41);
  const AttentionShape shape{2, 1, 32, kScale};
  DeviceSequences sequences(stream, KvType::kF16, shape, 32, {600, 600}, rng);
  sequences.fill(kAttendLayer, rng);
  const DeviceStep step = sequences.step({{0, 3}, {1, 0}});
  const std::vector<float> qkv = random_floats(2 * sequences.qkv_stride(), rng);
  const DeviceArray<float> in(stream, qkv);
  DeviceWork work(stream, shape, 2, kEnoughPlaces, true);
  work.plan_shape.num_blocks = 8;
  const DeviceReady out(stream, 64, 2);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t captured = nullptr;
  const AttendWork planned = work.plan({{0, 3}, {1, 0}});
  require_success(load_attend(KvType::kF16, shape));
  require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  require_success(attend(
      {shape, kAttendLayer, 2, step.view(), planned, {in.view(), sequences.qkv_stride()}, sequences.kv()},
      kMaxAttendPositions, work.workspace(), out.view(), stream));
  require_success(cudaStreamEndCapture(stream, &graph));
  require_success(cudaGraphInstantiate(&captured, graph, 0));
  struct Run {
    std::vector<RowPlace> rows;
    bool is_apart;
  };
  for (const auto& [rows, is_apart] : {Run{{{0, 3}, {1, 0}}, true},  // 2 pieces of 2 heads
                                       Run{{{1, 599}, {0, 256}}, false}, Run{{{0, 31}, {1, 512}}, true}}) {
    step.move_to(rows);
    work.plan(rows);
    REQUIRE(work.is_apart() == is_apart);
    require_success(cudaGraphLaunch(captured, stream));
    Attention attention(stream, sequences, shape, rows, rng);
    for (uint32_t row = 0; row < 2; ++row)
      std::copy_n(qkv.begin() + row * sequences.qkv_stride(), 64, attention.queries.begin() + row * 64);
    REQUIRE(out.is(attention.wanted_rows()));
  }
  require_success(cudaGraphExecDestroy(captured));
  require_success(cudaGraphDestroy(graph));
}

TEST_CASE("attend: the workspace has room for each split of the cache, within a bound") {
  const AttentionShape shape{32, 8, 128, kScale};
  const uint64_t split_floats = 32 * 130;
  const auto places = [&](const AttendLimits& limits) {
    CHECK(attend_result_floats(shape, limits) == split_floats * max_cut_splits(shape, limits));
    return max_cut_splits(shape, limits);
  };
  CHECK(places({1, 256, 1u << 20}) == 0);
  CHECK(attend_arrivals(shape, {3, 256, 1u << 20}) == 3 * 8);
  CHECK(attend_arrivals(shape, {4, 257, 1u << 20}) == 4 * 8 + 4 * 2 * 32);
  CHECK(places({4, 257, 1u << 20}) == 4 * 2);
  // Of many rows, few have more splits than each block computes.
  CHECK(places({1000, 257, 1u << 20}) == kMaxAttendBlocks / 8 * 2);
  CHECK(places({31, 131072, 131072}) == 512 + 31 * 2);
  CHECK(places({32, 131072, 32 * 131072}) == kMaxAttendWorkspaceBytes / sizeof(float) / split_floats);
}

}  // namespace
}  // namespace runnel
