// The plan of a batch's attention: everything is computed once, and partial sums do not exceed their room.
#include "cpu-runner/attention/attention_plan.h"

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "cpu-runner/kernels/kv.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

Batch batch_of(const std::vector<std::pair<uint32_t, uint32_t>>& first_positions_and_rows) {
  Batch batch;
  for (const auto& [first_position, num_rows] : first_positions_and_rows) {
    batch.sequences.push_back({batch.num_rows(), num_rows, first_position, {}});
    for (uint32_t i = 0; i < num_rows; ++i) {
      batch.token_ids.push_back(0);
      batch.positions.push_back(first_position + i);
    }
  }
  return batch;
}

AttentionShape shape_of(uint32_t num_heads, uint32_t num_kv_heads, uint32_t window = 0) {
  return {num_heads, num_kv_heads, 64, 0.125f, window};
}

AttentionPlan plan_of(const Batch& batch, const AttentionShape& shape, uint32_t num_threads) {
  AttentionPlan plan;
  plan.prepare(batch, shape, num_threads);
  return plan;
}

uint32_t num_cut(const AttentionPlan& plan) {
  return static_cast<uint32_t>(std::ranges::count_if(plan.groups(), &AttentionPlan::Group::is_cut));
}

TEST_CASE("a plan has each split of each row and KV head once, and room for its partial sums") {
  constexpr uint32_t kSeed = 31;
  CAPTURE(kSeed);
  constexpr uint32_t kMaxPositions = 9000;
  std::mt19937 rng(kSeed);
  for (uint32_t trial = 0; trial < 300; ++trial) {
    std::vector<std::pair<uint32_t, uint32_t>> shares;
    const uint32_t num_sequences = 1 + rng() % 12;
    for (uint32_t i = 0; i < num_sequences; ++i) {
      const uint32_t num_rows = rng() % 2 == 0 ? 1 : 1 + rng() % 60;
      shares.emplace_back(rng() % (kMaxPositions - num_rows + 1), num_rows);
    }
    const uint32_t queries_per_kv = 1 + rng() % 30;
    const uint32_t num_kv_heads = 1 + rng() % 9;
    const uint32_t num_threads = 1 + rng() % 9;
    const uint32_t window = rng() % 3 == 0 ? 1 + rng() % 2000 : 0;
    CAPTURE(trial);
    const Batch batch = batch_of(shares);
    const AttentionShape shape = shape_of(queries_per_kv * num_kv_heads, num_kv_heads, window);
    const AttentionPlan plan = plan_of(batch, shape, num_threads);

    REQUIRE(plan.num_partials() <= AttentionPlan::max_partials(num_threads, shape.num_heads, num_kv_heads,
                                                               batch.num_rows(), kMaxPositions));
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> times;  // by row, KV head and split
    for (const AttentionPlan::Chunk& chunk : plan.chunks()) {
      const AttentionPlan::Group& group = plan.groups()[chunk.group];
      for (uint32_t i = 0; i < group.num_rows; ++i) {
        for (uint32_t split = 0; split < chunk.num_splits; ++split)
          ++times[{group.first_row + i, chunk.kv_head, chunk.first_split + split}];
      }
    }
    for (uint32_t row = 0; row < batch.num_rows(); ++row) {
      const uint32_t position = batch.positions[row];
      for (uint32_t head = 0; head < num_kv_heads; ++head) {
        for (uint32_t split = first_seen(position, window) / kSplitPositions;
             split <= position / kSplitPositions; ++split)
          REQUIRE(times[{row, head, split}] == 1);
      }
    }
  }
}

TEST_CASE("one sequence with fewer KV heads than threads need is cut along its positions") {
  const AttentionPlan plan = plan_of(batch_of({{4095, 1}}), shape_of(9, 3), 2);
  CHECK(num_cut(plan) == 1);
  CHECK(plan.chunks().size() == 18);  // three heads, six runs of up to three splits
  CHECK(plan.num_partials() == 9 * 16);
}

TEST_CASE(
    "rows of a long prompt beside running streams are computed together, and cut along their positions") {
  const AttentionPlan plan = plan_of(batch_of({{100, 1}, {3000, 8}, {100, 1}}), shape_of(9, 3), 2);
  REQUIRE(num_cut(plan) == 1);
  const AttentionPlan::Group& first = plan.groups()[plan.chunks()[0].group];
  CHECK(first.num_rows == 8);
  CHECK(first.chunks_per_head() == 6);
}

TEST_CASE("attention is not split where a split gains nothing") {
  CHECK(num_cut(plan_of(batch_of({{4095, 1}}), shape_of(9, 3), 1)) == 0);
  CHECK(num_cut(plan_of(batch_of({{255, 1}}), shape_of(9, 3), 2)) == 0);
  CHECK(num_cut(plan_of(batch_of({{3584, 512}}), shape_of(9, 3), 2)) == 0);
  CHECK(num_cut(plan_of(batch_of(std::vector<std::pair<uint32_t, uint32_t>>(32, {2000, 1})), shape_of(9, 3),
                        2)) == 0);
}

TEST_CASE("no more sequences are cut than keep all threads busy, the longest ones") {
  std::vector<std::pair<uint32_t, uint32_t>> shares(6, {4000, 1});
  shares[3].first = 5000;
  const AttentionPlan plan = plan_of(batch_of(shares), shape_of(32, 8), 12);
  CHECK(num_cut(plan) == 2);  // with 16 KV heads, beside 32 whole ones
  for (const AttentionPlan::Group& group : plan.groups())
    if (group.first_position == 5000) CHECK(group.is_cut());
}

TEST_CASE("partial sums have room for rows of the longest sequence that threads can share") {
  CHECK(AttentionPlan::max_partials(1, 32, 8, 256, 131072) == 0);
  CHECK(AttentionPlan::max_partials(2, 32, 8, 256, 131072) == 6 * 32 * 512);
  CHECK(AttentionPlan::max_partials(64, 32, 8, 256, 131072) == 8 * 6 * 32 * 512);
  CHECK(AttentionPlan::max_partials(64, 32, 8, 4, 131072) == 4 * 32 * 512);
  CHECK(AttentionPlan::max_partials(64, 32, 8, 256, 257) == 8 * 6 * 32 * 2);
}

TEST_CASE("a long sequence among short ones is cut, and begins first") {
  const AttentionPlan plan = plan_of(batch_of({{100, 1}, {4000, 1}, {100, 1}}), shape_of(9, 3), 2);
  CHECK(num_cut(plan) == 1);
  CHECK(plan.groups()[plan.chunks()[0].group].sequence == 1);
  CHECK(plan.groups()[plan.chunks().back().group].sequence != 1);
}

TEST_CASE("a plan stays as it is for the same rows, and not for others") {
  AttentionPlan plan;
  const AttentionShape shape = shape_of(9, 3);
  CHECK(plan.prepare(batch_of({{10, 1}}), shape, 2));
  CHECK_FALSE(plan.prepare(batch_of({{10, 1}}), shape, 2));
  CHECK(plan.prepare(batch_of({{11, 1}}), shape, 2));
  CHECK(plan.prepare(batch_of({{11, 2}}), shape, 2));
  CHECK(plan.prepare(batch_of({{11, 2}}), shape_of(9, 3, 5), 2));
  CHECK(plan.prepare(batch_of({{11, 2}}), shape_of(9, 9, 5), 2));
}

}  // namespace
}  // namespace runnel
