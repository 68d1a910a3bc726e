// Attention: it has the bits of the formula in scalar code, and does not depend on how rows are computed
// together.
#include "cuda-runner/kernels/attend.h"

#include <cmath>
#include <random>
#include <vector>

#include "test/cuda-runner/cpu_twin.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/device_sequences.h"
#include "test/fixtures/attention_reference.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;
using reference::Ready;

constexpr KvType kTypes[] = {KvType::kF16, KvType::kF32, KvType::kQ8_0};
constexpr float kScale = 0.25f;
constexpr uint32_t kLayer = 1;
// No workspace is large enough for so many positions, so splits are computed one after the other.
constexpr uint32_t kEndlessPositions = 1u << 31;

// Queries of some rows of a step, and the results of attention for them.
struct Attention {
  Attention(const TestStream& stream_of, const DeviceSequences& sequences_of, const AttentionShape& shape_of,
            const std::vector<RowPlace>& rows_of, std::mt19937& rng)
      : stream(stream_of),
        sequences(sequences_of),
        shape(shape_of),
        rows(rows_of),
        queries(random_floats(rows_of.size() * shape_of.num_heads * shape_of.head_dim, rng, 2.0f)) {}

  uint32_t width() const { return shape.num_heads * shape.head_dim; }
  std::span<const float> query(size_t row, uint32_t head) const {
    return std::span(queries).subspan(row * width() + head * shape.head_dim, shape.head_dim);
  }

  // Computes `count` rows, from row `first` on, in a step of their own.
  std::unique_ptr<DeviceReady> on_device(size_t first, uint32_t count, uint32_t max_positions) const {
    const std::vector<RowPlace> some(rows.begin() + first, rows.begin() + first + count);
    const DeviceStep step = sequences.step(some);
    std::vector<float> qkv(size_t{count} * sequences.qkv_stride());
    for (uint32_t row = 0; row < count; ++row) {
      const auto from = queries.begin() + (first + row) * width();
      std::copy_n(from, width(), qkv.begin() + row * sequences.qkv_stride());
    }
    const DeviceArray<float> in(stream, qkv);
    const DeviceArray<float> workspace(stream, attend_workspace_floats(shape, count, max_positions));
    auto out = std::make_unique<DeviceReady>(stream, width(), count);
    require_success(
        attend({shape, kLayer, count, step.view(), {in.view(), sequences.qkv_stride()}, sequences.kv()},
               max_positions, workspace.view(), out->view(), stream));
    stream.synchronize();
    return out;
  }

  std::vector<float> wanted(size_t row, uint32_t head) const {
    const auto seen = sequences.stored_and_seen_by(rows[row], head / (shape.num_heads / shape.num_kv_heads));
    return reference::attend(query(row, head), seen.keys, seen.values,
                             sequences.first_seen(rows[row].position), shape.scale);
  }
  Ready wanted_rows() const {
    std::vector<float> all;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (uint32_t head = 0; head < shape.num_heads; ++head) {
        const std::vector<float> one = wanted(row, head);
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    return reference::ready(all, width());
  }

  const TestStream& stream;
  const DeviceSequences& sequences;
  AttentionShape shape;
  std::vector<RowPlace> rows;
  std::vector<float> queries;
};

struct AttendCase {
  KvType type;
  AttentionShape shape;
  uint32_t block_size;
  std::vector<uint32_t> lengths;
  std::vector<RowPlace> rows;
};

// Checks splits in parallel and splits one after the other.
void check_attend(const TestStream& stream, const AttendCase& wanted_case, std::mt19937& rng) {
  const auto& [type, shape, block_size, lengths, rows] = wanted_case;
  CAPTURE(kv_type_name(type));
  CAPTURE(shape.num_heads);
  CAPTURE(shape.num_kv_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.window);
  CAPTURE(block_size);
  DeviceSequences sequences(stream, type, shape, block_size, lengths, rng);
  sequences.fill(kLayer, rng);
  const Attention attention(stream, sequences, shape, rows, rng);
  const Ready wanted = attention.wanted_rows();
  const auto num_rows = static_cast<uint32_t>(rows.size());
  REQUIRE(attention.on_device(0, num_rows, 1024)->is(wanted));
  REQUIRE(attention.on_device(0, num_rows, kEndlessPositions)->is(wanted));
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
  for (const uint32_t queries_per_kv : {1u, 2u, 3u, 4u, 7u, 8u}) {
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
    check_attend(stream, {type, shape, 8u << below(6), lengths, rows}, rng);
  }
}

TEST_CASE("attend: a row has the same bits alone, among few and among many, and on the CPU") {
  const TestStream stream;
  std::mt19937 rng(39);
  for (const KvType type : kTypes) {
    const AttentionShape shape{4, 2, 32, kScale};
    DeviceSequences sequences(stream, type, shape, 16, {300, 80}, rng);
    sequences.fill(kLayer, rng);
    std::vector<RowPlace> rows;
    for (uint32_t i = 0; i <= kMaxSplitRows; ++i) rows.push_back({i % 2, i % 2 == 0 ? 299 - i : i});
    const Attention attention(stream, sequences, shape, rows, rng);
    constexpr uint32_t kMaxPositions = 512;
    const auto all = attention.on_device(0, kMaxSplitRows + 1, kMaxPositions)->values.values();
    const auto few = attention.on_device(0, kMaxSplitRows, kMaxPositions)->values.values();
    const auto one = attention.on_device(2, 1, kMaxPositions)->values.values();
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

TEST_CASE("attend: more splits than blocks are taken in turns") {
  const TestStream stream;
  std::mt19937 rng(40);
  const AttentionShape shape{32, 32, 4, kScale};
  DeviceSequences sequences(stream, KvType::kF16, shape, 32, {520}, rng);
  sequences.fill(kLayer, rng);
  std::vector<RowPlace> rows(kMaxSplitRows, RowPlace{0, 0});
  rows.back().position = 519;
  const Attention attention(stream, sequences, shape, rows, rng);
  const auto side_by_side = attention.on_device(0, kMaxSplitRows, 768)->values.values();
  const auto in_order = attention.on_device(0, kMaxSplitRows, kEndlessPositions)->values.values();
  CHECK(bits_of(side_by_side) == bits_of(in_order));
}

TEST_CASE("attend: captured once, it is right wherever the rows are when it runs") {
  const TestStream stream;
  std::mt19937 rng(41);
  const AttentionShape shape{2, 1, 32, kScale};
  DeviceSequences sequences(stream, KvType::kF16, shape, 32, {600, 600}, rng);
  sequences.fill(kLayer, rng);
  const DeviceStep step = sequences.step({{0, 3}, {1, 0}});
  constexpr uint32_t kMaxPositions = 600;
  const std::vector<float> qkv = random_floats(2 * sequences.qkv_stride(), rng);
  const DeviceArray<float> in(stream, qkv);
  const DeviceArray<float> workspace(stream, attend_workspace_floats(shape, 2, kMaxPositions));
  const DeviceReady out(stream, 64, 2);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t captured = nullptr;
  require_success(load_attend(KvType::kF16));
  require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  require_success(attend({shape, kLayer, 2, step.view(), {in.view(), sequences.qkv_stride()}, sequences.kv()},
                         kMaxPositions, workspace.view(), out.view(), stream));
  require_success(cudaStreamEndCapture(stream, &graph));
  require_success(cudaGraphInstantiate(&captured, graph, 0));
  for (const std::vector<RowPlace>& rows :
       {std::vector<RowPlace>{{0, 3}, {1, 0}}, {{1, 599}, {0, 256}}, {{0, 31}, {1, 512}}}) {
    step.move_to(rows);
    require_success(cudaGraphLaunch(captured, stream));
    Attention attention(stream, sequences, shape, rows, rng);
    for (uint32_t row = 0; row < 2; ++row)
      std::copy_n(qkv.begin() + row * sequences.qkv_stride(), 64, attention.queries.begin() + row * 64);
    REQUIRE(out.is(attention.wanted_rows()));
  }
  require_success(cudaGraphExecDestroy(captured));
  require_success(cudaGraphDestroy(graph));
}

TEST_CASE("attend: the workspace has a bound, and one context that is too long for it needs none") {
  const TestStream stream;
  const AttentionShape shape{32, 8, 128, kScale};
  CHECK(attend_workspace_floats(shape, 1, 256) == 32 * 130);
  CHECK(attend_workspace_floats(shape, 4, 257) == 4 * 2 * 32 * 130);
  CHECK(attend_workspace_floats(shape, 1000, 256) == kMaxSplitRows * 32 * 130);
  for (const uint32_t max_positions : {4096u, 131072u, 1u << 20, 1u << 24, 1u << 31})
    CHECK(attend_workspace_floats(shape, 1000, max_positions) * sizeof(float) <= kMaxAttendWorkspaceBytes);
  CHECK(attend_workspace_floats(shape, 1000, 1u << 31) == 0);
}

}  // namespace
}  // namespace runnel
