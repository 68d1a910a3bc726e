// Experts of steps of many rows, which are multiplied by expert: they have the bits of a product for each
// use.
#include "cuda-runner/device_experts.h"

#include <random>
#include <vector>

#include "cuda-runner/kernels/grouped_product.h"
#include "test/cuda-runner/expert_case.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// Steps may have this many rows more than those that are computed.
constexpr uint32_t kLongerSteps = 5;

// Logits that make each row use the experts that are listed for it.
std::vector<float> logits_for(const std::vector<std::vector<uint32_t>>& rows, uint32_t num_experts,
                              std::mt19937& rng) {
  std::vector<float> logits;
  for (const std::vector<uint32_t>& used : rows) {
    std::vector<float> of_row(num_experts, -100.0f);
    for (const uint32_t expert : used) of_row[expert] = random_floats(1, rng).front();
    logits.insert(logits.end(), of_row.begin(), of_row.end());
  }
  return logits;
}

// num_rows rows that use random experts.
std::vector<float> random_logits(uint32_t num_rows, uint32_t num_experts, std::mt19937& rng) {
  return random_floats(size_t{num_rows} * num_experts, rng);
}

ExpertsShape shape_of(const ExpertSizes& sizes, uint32_t max_rows) {
  return {.max_rows = max_rows,
          .num_experts = sizes.num_experts,
          .num_used = sizes.num_used,
          .hidden = sizes.hidden,
          .gated = sizes.width,
          .own_hidden = sizes.hidden};
}

// Whether DeviceExperts, with so many bytes for a part, computes what scalar code does.
bool computes(const ExpertSizes& sizes, TensorType type, TensorType up_type, const std::vector<float>& logits,
              std::mt19937& rng, uint64_t most_part_bytes = DeviceExperts::kMostPartBytes) {
  const TestStream arrays;
  const ExpertCase of(arrays, sizes, type, up_type, logits, rng);
  Stream stream;
  DeviceExperts experts(shape_of(sizes, of.num_rows() + kLongerSteps), most_part_bytes);
  REQUIRE(experts.allocate(stream).ok());
  experts.choose(of.logits(), of.num_rows(), stream);
  experts.gated_multiply(of.gate(), of.up(), of.gate_up_bias(), of.nonlinearity(), of.in(), of.num_rows(),
                         of.gated(), stream);
  experts.add_output(of.down(), of.down_bias(), of.gated(), of.num_rows(), of.out(), stream);
  stream.synchronize();
  return of.is_right();
}

TEST_CASE("experts of many rows: every type of weights has the bits of the reference") {
  std::mt19937 rng(71);
  require_success(load_use_groups());
  for (const TensorType type : tensor_types()) {
    CAPTURE(type_name(type));
    require_success(load_grouped_products(type));
    // An odd number of tiles of 32 rows where the type has blocks that are small enough.
    const uint32_t hidden = whole_blocks(type, 96);
    const uint32_t width = whole_blocks(type, 64);
    for (const bool has_bias : {false, true})
      REQUIRE(computes({3, 2, hidden, width, has_bias}, type, type, random_logits(40, 3, rng), rng));
  }
}

TEST_CASE(
    "experts of many rows: groups are whole, short or empty, and experts are used by all rows or none") {
  std::mt19937 rng(72);
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kBF16}) {
    CAPTURE(type_name(type));
    require_success(load_grouped_products(type));
    // The last expert, the first one and one between, each alone.
    for (const uint32_t expert : {0u, 2u, 4u})
      REQUIRE(computes({5, 1, 64, 32, false}, type, type,
                       logits_for(std::vector(40, std::vector{expert}), 5, rng), rng));
    // Numbers of uses around those of a group and of its half, and experts without uses among them.
    for (const std::vector<uint32_t>& counts : {std::vector<uint32_t>{1, 0, 31, 0},
                                                {32, 0, 0, 33},
                                                {15, 16, 17, 1},
                                                {0, 0, 64, 65},
                                                {0, 4, 3, 5}}) {
      std::vector<std::vector<uint32_t>> rows;
      for (uint32_t expert = 0; expert < counts.size(); ++expert)
        rows.insert(rows.end(), counts[expert], {expert});
      std::ranges::shuffle(rows, rng);
      REQUIRE(computes({4, 1, 64, 32, false}, type, type, logits_for(rows, 4, rng), rng));
    }
  }
}

TEST_CASE("experts of many rows: a short last group reads no place beyond the memory") {
  std::mt19937 rng(76);
  const TensorType type = TensorType::kQ4_0;
  require_success(load_grouped_products(type));
  // The places of the longest step are a whole number of kRowGroup, and the last group begins with place 116.
  std::vector<std::vector<uint32_t>> rows(113, {0});
  rows.insert(rows.end(), 4, {1});
  REQUIRE(UseGroups::most_places(117 + kLongerSteps, 2) == kRowGroup);
  REQUIRE(computes({2, 1, 32, 32, false}, type, type, logits_for(rows, 2, rng), rng));
}

TEST_CASE("experts of many rows: more experts and uses of a row, more uses than a block has threads") {
  std::mt19937 rng(73);
  const TensorType type = TensorType::kQ8_0;
  require_success(load_grouped_products(type));
  for (const auto& [num_rows, num_experts, num_used] :
       {std::tuple{64u, 256u, 8u}, {70u, 40u, 8u}, {300u, 2u, 2u}, {2u, 1u, 1u}, {33u, 9u, 9u}}) {
    CAPTURE(num_experts);
    CAPTURE(num_used);
    REQUIRE(computes({num_experts, num_used, 32, 32, num_experts < 10}, type, type,
                     random_logits(num_rows, num_experts, rng), rng));
  }
}

TEST_CASE("experts of many rows: the parts of a step have the bits of the whole") {
  std::mt19937 rng(74);
  const ExpertSizes sizes{3, 2, 64, 64, true};
  constexpr uint32_t kRows = 41;
  for (const TensorType type : {TensorType::kQ4_1, TensorType::kF32}) {
    CAPTURE(type_name(type));
    require_success(load_grouped_products(type));
    for (const auto& [bytes, part_rows] : {std::pair{9'000u, 4u}, {20'000u, 14u}, {40'000u, 30u}}) {
      CHECK(DeviceExperts(shape_of(sizes, kRows), bytes).part_rows() == part_rows);
      REQUIRE(computes(sizes, type, type, random_logits(kRows, sizes.num_experts, rng), rng, bytes));
    }
  }
}

TEST_CASE("experts of many rows: gate and up of different types have the bits of the reference") {
  std::mt19937 rng(75);
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kF16}) {
    require_success(load_grouped_products(type));
    REQUIRE(computes({3, 2, 64, 64, false}, type, TensorType::kQ4_0, random_logits(9, 3, rng), rng));
  }
}

TEST_CASE("experts of many rows: no step has groups in which an expert has less than two rows on average") {
  const auto part_rows = [](uint32_t max_rows, uint64_t most_bytes = DeviceExperts::kMostPartBytes) {
    return DeviceExperts(shape_of({128, 8, 2048, 768, false}, max_rows), most_bytes).part_rows();
  };
  CHECK(part_rows(1) == 0);
  CHECK(part_rows(31) == 0);
  CHECK(part_rows(32) == 32);
  // A part has less than two rows for each expert, or not even the places that have no use.
  CHECK(part_rows(32, 10'000'000) == 32);
  CHECK(part_rows(32, 8'000'000) == 0);
  CHECK(part_rows(32, 1'000) == 0);
}

TEST_CASE("experts of many rows: what they take of the memory is bounded, however many rows a step has") {
  const ExpertSizes sizes{128, 8, 2048, 768, false};
  const auto bytes = [&](uint32_t max_rows) { return DeviceExperts(shape_of(sizes, max_rows)).num_bytes(); };
  constexpr uint64_t kIdsAndWeights = 8 * 2 * sizeof(uint32_t);
  CHECK(bytes(16) == 16 * kIdsAndWeights);  // no groups
  CHECK(bytes(512) > 512 * kIdsAndWeights);
  for (const uint32_t max_rows : {2'048u, 65'536u}) {
    CAPTURE(max_rows);
    CHECK(DeviceExperts(shape_of(sizes, max_rows)).part_rows() > 500);
    // Beside a part's rows there are lists of a few words for each use.
    CHECK(bytes(max_rows) < DeviceExperts::kMostPartBytes * 51 / 50 + 2 * max_rows * kIdsAndWeights);
  }
}

}  // namespace
}  // namespace runnel
