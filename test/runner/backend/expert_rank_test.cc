#include "runner/backend/expert_rank.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "test/unit_test.h"

namespace runnel {
namespace {

TEST_CASE("expert rank: larger logits go first, of equal ones the lower index, and what is no number last") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<float, uint32_t>> in_order = {
      {inf, 7}, {1.0f, 0}, {1.0f, 3}, {0.0f, 1}, {-0.0f, 2}, {-1.0f, 0}, {-inf, 0}, {NAN, 0}, {-NAN, 1}};
  for (size_t i = 1; i < in_order.size(); ++i) {
    const auto [first, first_index] = in_order[i - 1];
    const auto [second, second_index] = in_order[i];
    CHECK(expert_rank(first, first_index) > expert_rank(second, second_index));
    CHECK(expert_of_rank(expert_rank(second, second_index)) == second_index);
  }
}

// The NaN that a GPU computes has all lower bits set; that of a CPU has few.
TEST_CASE("expert rank: the bits of a NaN are of no matter, and no rank is the first or last there is") {
  for (const uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0xffc00000u}) {
    const uint64_t rank = expert_rank(std::bit_cast<float>(bits), 0);
    CHECK(rank == expert_rank(NAN, 0));
    CHECK(rank > 0);
  }
  CHECK(expert_rank(std::numeric_limits<float>::infinity(), 0) < UINT64_MAX);
}

}  // namespace
}  // namespace runnel
