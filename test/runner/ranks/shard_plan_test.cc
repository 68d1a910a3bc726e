#include "runner/ranks/shard_plan.h"

#include <algorithm>
#include <numeric>

#include "runner/ranks/cut_rows.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct Sizes {
  uint32_t hidden = 576;
  uint32_t num_heads = 9;
  uint32_t num_kv_heads = 3;
  uint32_t head_dim = 64;
  uint32_t ffn = 1536;
  uint32_t vocab = 49152;
  uint32_t num_experts = 0;
};

// One layer, with handles in the order of loading; the embedding is the head too.
DecoderSpec spec_of(const Sizes& sizes) {
  DecoderSpec spec{
      .hidden_size = sizes.hidden, .embedding = {.table = {0}}, .ropes = {}, .layers = {}, .head = {}};
  const ExpertsSpec experts{.num_experts = sizes.num_experts,
                            .num_used = std::min(2u, sizes.num_experts),
                            .router = {7},
                            .router_bias = {8}};
  spec.head = {.norm = {}, .weight = {0}, .vocab_size = sizes.vocab};
  spec.layers.push_back(
      {.index = 0,
       .attention = {sizes.num_heads, sizes.num_kv_heads, sizes.head_dim, 1.0f, 0},
       .sinks = {9},
       .qkv = {.norm = {}, .weight = {1}, .bias = {2}, .rope = 0},
       .attention_output = {.input = ProjectInput::kAttended, .weight = {3}, .bias = {4}},
       .ffn = {.norm = {}, .width = sizes.ffn, .gate_up = {5}, .bias = {10}, .experts = experts},
       .ffn_output = {.input = ProjectInput::kGated, .weight = {6}, .bias = {11}, .experts = experts}});
  return spec;
}

ShardPlan plan_of(const Sizes& sizes, uint32_t num_ranks) {
  const Result<ShardPlan> plan = ShardPlan::make(spec_of(sizes), num_ranks);
  REQUIRE(plan.ok());
  return *plan;
}

std::string refusal_of(const Sizes& sizes, uint32_t num_ranks) {
  const Result<ShardPlan> plan = ShardPlan::make(spec_of(sizes), num_ranks);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().exit_code == ExitCode::kUsage);
  return plan.error().message;
}

uint64_t count_of(const std::vector<RowRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), uint64_t{0},
                         [](uint64_t sum, const RowRange& range) { return sum + range.count; });
}

constexpr RowRange Shard::*kDimensions[] = {&Shard::heads, &Shard::kv_heads, &Shard::hidden, &Shard::gated,
                                            &Shard::vocab};

// The shares follow each other and end with the whole.
bool covers(const std::vector<RowRange>& shares, uint32_t whole) {
  uint32_t end = 0;
  for (const RowRange& share : shares) {
    if (share.first != end || share.count == 0) return false;
    end = share.end();
  }
  return end == whole;
}

}  // namespace

TEST_CASE("shard plan: ranks have whole KV heads with their queries, also where shares are unequal") {
  const ShardPlan plan = plan_of({}, 2);
  CHECK(plan.num_ranks() == 2);
  CHECK(plan[0].heads == RowRange{0, 6});
  CHECK(plan[0].kv_heads == RowRange{0, 2});
  CHECK(plan[1].heads == RowRange{6, 3});
  CHECK(plan[1].kv_heads == RowRange{2, 1});
  CHECK(plan.rows_of({1}, 1) == std::vector<RowRange>{{384, 192}, {576 + 128, 64}, {768 + 128, 64}});
  CHECK(plan.rows_of({2}, 1) == plan.rows_of({1}, 1));
  CHECK(plan.rows_of({9}, 1) == std::vector<RowRange>{{6, 3}});
  CHECK(plan.columns_of(&Shard::heads, 64) == std::vector<RowRange>{{0, 384}, {384, 192}});
}

TEST_CASE("shard plan: above the number of KV heads, ranks share a head's queries") {
  const ShardPlan plan = plan_of({.num_heads = 12, .num_kv_heads = 2}, 4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(plan[rank].heads == RowRange{rank * 3, 3});
    CHECK(plan[rank].kv_heads == RowRange{rank / 2, 1});
  }
}

TEST_CASE("shard plan: the shares of every dimension cover it") {
  for (const Sizes& sizes :
       {Sizes{},
        Sizes{.hidden = 64, .num_heads = 16, .num_kv_heads = 16, .head_dim = 4, .ffn = 96, .vocab = 33},
        Sizes{.num_heads = 16, .num_kv_heads = 16, .num_experts = 4}}) {
    for (uint32_t num_ranks = 1; num_ranks <= kMaxRanks; ++num_ranks) {
      if (sizes.num_kv_heads < num_ranks) continue;
      CAPTURE(num_ranks);
      const ShardPlan plan = plan_of(sizes, num_ranks);
      const uint32_t wholes[] = {sizes.num_heads, sizes.num_kv_heads, sizes.hidden, sizes.ffn, sizes.vocab};
      for (size_t i = 0; i < std::size(wholes); ++i)
        CHECK(covers(plan.columns_of(kDimensions[i]), wholes[i]));
    }
  }
}

TEST_CASE("shard plan: no rank has more than its part of weights and multiplications, and a tenth") {
  for (const auto& [sizes, num_ranks] : {std::pair(Sizes{}, 2u), std::pair(Sizes{}, 3u),
                                         std::pair(Sizes{.hidden = 4096,
                                         .num_heads = 32,
                                         .num_kv_heads = 8,
                                         .head_dim = 128,
                                         .ffn = 14336,
                                         .vocab = 128256},
                                                   2u),
                                         std::pair(Sizes{.hidden = 4096,
                                         .num_heads = 32,
                                         .num_kv_heads = 8,
                                         .head_dim = 128,
                                         .ffn = 14336,
                                         .vocab = 128256},
                                                   8u),
                                         std::pair(Sizes{.hidden = 2048,
                                         .num_heads = 32,
                                         .num_kv_heads = 4,
                                         .head_dim = 128,
                                         .ffn = 768,
                                         .vocab = 151936,
                                         .num_experts = 128},
                                                   4u)}) {
    CAPTURE(sizes.hidden);
    CAPTURE(num_ranks);
    const ShardPlan plan = plan_of(sizes, num_ranks);
    const uint64_t num_experts = std::max(1u, sizes.num_experts);
    const uint64_t qkv_rows = (sizes.num_heads + 2 * sizes.num_kv_heads) * sizes.head_dim;
    const auto weights = [&](uint64_t vocab, uint64_t qkv, uint64_t attention, uint64_t gate_up,
                             uint64_t down) {
      return (vocab + qkv + gate_up) * sizes.hidden + attention * sizes.num_heads * sizes.head_dim +
             down * sizes.ffn;
    };
    const uint64_t whole =
        weights(sizes.vocab, qkv_rows, sizes.hidden, num_experts * 2 * sizes.ffn, num_experts * sizes.hidden);
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      const auto rows = [&](int32_t handle) { return count_of(plan.rows_of({handle}, rank)); };
      const uint64_t share = weights(rows(0), rows(1), rows(3), rows(5), rows(6));
      CHECK(static_cast<double>(share) <= 1.1 * static_cast<double>(whole) / num_ranks);
      sum += share;
    }
    CHECK(sum == whole);
  }
}

TEST_CASE("shard plan: what ranks multiply is as unequal as their heads in attention alone") {
  // 9 queries with 3 KV heads: one of two ranks has 6 and 2.
  const Sizes sizes;
  const ShardPlan plan = plan_of(sizes, 2);
  const auto rows = [&](int32_t handle) { return count_of(plan.rows_of({handle}, 0)); };
  CHECK(plan[0].heads.count == 6);
  CHECK(rows(1) == 640);  // of 960
  const uint64_t of_layer =
      (rows(1) + rows(5)) * sizes.hidden + rows(3) * sizes.num_heads * sizes.head_dim + rows(6) * sizes.ffn;
  const uint64_t whole =
      (960 + 2 * sizes.ffn) * sizes.hidden + sizes.hidden * (sizes.num_heads * sizes.head_dim + sizes.ffn);
  // A token's multiplications with the weights of 30 layers and the head.
  constexpr uint32_t kLayers = 30;
  const double share = static_cast<double>(kLayers * of_layer + rows(0) * sizes.hidden) /
                       static_cast<double>(kLayers * whole + uint64_t{sizes.vocab} * sizes.hidden);
  CHECK(share > 1.03 / 2);
  CHECK(share <= 1.05 / 2);
}

TEST_CASE("shard plan: a rank has its part of each expert, in whole tiles") {
  const ShardPlan plan = plan_of({.ffn = 96, .num_experts = 2}, 3);
  CHECK(plan.rows_of({5}, 1) == std::vector<RowRange>{{32, 32}, {128, 32}, {224, 32}, {320, 32}});
  CHECK(plan.rows_of({6}, 1) == std::vector<RowRange>{{192, 192}, {768, 192}});
  for (const int32_t router : {7, 8}) CHECK(plan.rows_of({router}, 1).empty());
  CHECK(plan.rows_of({10}, 1) == plan.rows_of({5}, 1));
  CHECK(plan.rows_of({11}, 1) == plan.rows_of({6}, 1));
}

TEST_CASE("shard plan: what so many ranks cannot share is refused by name") {
  CHECK(
      refusal_of({}, 4) ==
      "--tensor-parallel-size is 4, and the model has 3 KV heads; it must be at most as many, or a multiple "
      "of them.");
  CHECK(refusal_of({}, 12) ==
        "--tensor-parallel-size is 12, and the model has 9 heads; there can be no more ranks than heads.");
  CHECK(refusal_of({.ffn = 64, .num_experts = 2}, 3) ==
        "--tensor-parallel-size is 3, and the model has a matrix of 2 tiles; there can be no more ranks than "
        "that.");
}

TEST_CASE("cut rows: ranges of several matrices, and several ranges of one") {
  std::vector<std::byte> bytes(24);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  const auto matrix = [&](size_t first_row, uint64_t num_rows) {
    return TensorView{
        "m", TensorType::kF32, 2, {1, num_rows, 1, 1}, std::span(bytes).subspan(first_row * 4, num_rows * 4)};
  };
  const std::vector<TensorView> stacked = {matrix(0, 2), matrix(2, 4)};
  const CutMatrices cut = cut_rows(stacked, std::vector<RowRange>{{1, 1}, {2, 1}, {4, 2}});
  REQUIRE(cut.parts.size() == 2);
  CHECK(cut.parts[0].rows() == 1);
  CHECK(cut.parts[0].data.data() == bytes.data() + 4);
  CHECK(cut.parts[1].rows() == 3);
  const std::vector<std::byte> expected = {bytes[8],  bytes[9],  bytes[10], bytes[11], bytes[16], bytes[17],
                                           bytes[18], bytes[19], bytes[20], bytes[21], bytes[22], bytes[23]};
  CHECK(std::ranges::equal(cut.parts[1].data, expected));
  CHECK(cut_rows(stacked, {}).parts.size() == 2);
  CHECK(cut_values(std::vector{1.0f, 2.0f, 3.0f}, std::vector<RowRange>{{0, 1}, {2, 1}}) ==
        std::vector{1.0f, 3.0f});
}

}  // namespace runnel
