#include "cuda-runner/attend_plan.h"

#include <algorithm>
#include <vector>

#include "cuda-runner/kernels/attend_work.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kGroups = 8;
constexpr uint32_t kHeads = kGroups;  // a query in each group
constexpr uint32_t kKvHeads = 8;
constexpr uint32_t kTileRows = 4;

struct Entry {
  uint32_t a, b, c, d;
  bool operator==(const Entry&) const = default;
};

// The list for one row of a sequence of its own at each position: the counts, then pieces.
std::vector<Entry> list_of(const AttendPlanShape& shape, const std::vector<uint32_t>& positions) {
  std::vector<uint32_t> sequences(positions.size());
  for (uint32_t i = 0; i < sequences.size(); ++i) sequences[i] = 100 + i;
  AttendPlan plan(shape);
  const auto words = plan.make(positions, sequences);
  CHECK(words.size() <= AttendPlan::max_words(shape));
  std::vector<Entry> entries;
  for (size_t i = 0; i < words.size(); i += kAttendEntryWords)
    entries.push_back({words[i], words[i + 1], words[i + 2], words[i + 3]});
  return entries;
}

TEST_CASE("attention's plan: a row alone is cut into its splits; a row with one split is a piece") {
  CHECK(list_of({0, kGroups, kHeads, kKvHeads, kTileRows, 1, 100}, {255}) ==
        std::vector<Entry>{{0, 1, 0, 0}, {0, 100, 255, 0}});
  CHECK(list_of({0, kGroups, kHeads, kKvHeads, kTileRows, 1, 100}, {256}) ==
        std::vector<Entry>{{2, 2, 0, 0}, {0, 100, 256, 0}, {0, 100, 256, 1}});
}

TEST_CASE("attention's plan: a window leaves out the splits before it") {
  CHECK(list_of({2, kGroups, kHeads, kKvHeads, kTileRows, 1, 100}, {512}) ==
        std::vector<Entry>{{2, 2, 0, 0}, {0, 100, 512, 1}, {0, 100, 512, 2}});
  CHECK(list_of({1, kGroups, kHeads, kKvHeads, kTileRows, 1, 100}, {512}) ==
        std::vector<Entry>{{0, 1, 0, 0}, {0, 100, 512, 2}});
}

TEST_CASE("attention's plan: rows are cut from the longest on, as far as there are places") {
  const auto list = list_of({0, kGroups, kHeads, kKvHeads, kTileRows, 3, 5}, {300, 1000, 400});
  CHECK(list[0] == Entry{4, 6, 0, 0});
  CHECK(list[1] == Entry{1, 101, 1000, 0});
  CHECK(list[5] == Entry{0, 100, 300, 0});
  CHECK(list[6] == Entry{2, 102, 400, 0});
  CHECK(list_of({0, kGroups, kHeads, kKvHeads, kTileRows, 3, 0}, {300, 1000, 400})[0] == Entry{0, 3, 0, 0});
}

TEST_CASE("attention's plan: rows that are no longer than a block's share are whole") {
  std::vector<uint32_t> positions(256, 511);
  CHECK(list_of({0, kGroups, kHeads, kKvHeads, kTileRows, 256, 1024}, positions)[0] == Entry{0, 256, 0, 0});
  positions[7] = 131071;
  const auto list = list_of({0, kGroups, kHeads, kKvHeads, kTileRows, 256, 1024}, positions);
  CHECK(list[0] == Entry{512, 512 + 255, 0, 0});
  CHECK(list[1] == Entry{7, 107, 131071, 0});
}

TEST_CASE("attention's plan: the more blocks a device holds, the less is a block's share") {
  AttendPlanShape shape{0, kGroups, kHeads, kKvHeads, kTileRows, 64, 1024};
  const std::vector<uint32_t> positions(64, 511);
  shape.num_blocks = 528;  // 64 rows of 2 splits and 8 groups: less than two splits a block
  CHECK(list_of(shape, positions)[0] == Entry{128, 128, 0, 0});
  shape.num_blocks = 396;
  CHECK(list_of(shape, positions)[0] == Entry{0, 64, 0, 0});
}

TEST_CASE("attention's plan: queries are apart if the blocks take the pieces of all heads at once") {
  const auto is_apart = [](uint32_t num_groups, uint32_t num_blocks, const std::vector<uint32_t>& positions) {
    const AttendPlanShape shape{0, num_groups, 32, kKvHeads, kTileRows, 64, 1024, 256, num_blocks};
    const uint32_t word = list_of(shape, positions)[0].d;
    CHECK(word <= 1);
    return word == 1;
  };
  const std::vector<uint32_t> rows(16, 255);
  CHECK(is_apart(8, 16 * 32, rows));
  CHECK(!is_apart(8, 16 * 32 - 1, rows));
  CHECK(is_apart(8, 4 * 32, {1023}));  // cut: each split counts
  CHECK(!is_apart(8, 4 * 32, {1024}));
  CHECK(!is_apart(32, 16 * 32, rows));  // as they are anyway
}

TEST_CASE("attention's plan: rows of a prompt are tiles, the last positions first, if there are enough") {
  constexpr uint32_t kEnough = 5 * kTileRows;
  const AttendPlanShape shape{0, kGroups, kHeads, kKvHeads, kTileRows, kEnough + 2, 100, 5 * kKvHeads};
  AttendPlan plan(shape);
  const auto make = [&](uint32_t num_prompt_rows) {
    std::vector<uint32_t> positions = {7};
    std::vector<uint32_t> sequences = {0};
    for (uint32_t i = 0; i < num_prompt_rows; ++i) {
      positions.push_back(100 + i);
      sequences.push_back(1);
    }
    positions.push_back(9);
    sequences.push_back(1);
    const auto words = plan.make(positions, sequences);
    return std::vector<uint32_t>(words.begin(), words.end());
  };
  const std::vector<uint32_t> enough = make(kEnough - 1);
  CHECK(plan.has_pieces());
  REQUIRE(plan.num_tiles() == kEnough / kTileRows);
  CHECK(std::vector(enough.begin(), enough.begin() + 16) ==
        std::vector<uint32_t>{0, 2, plan.num_tiles(), 0, 0, 0, 7, 0, kEnough, 1, 9, 0,  //
                              kEnough - 3, 3, 1, 100 + kEnough - 4});
  CHECK(std::vector(enough.end() - 4, enough.end()) == std::vector<uint32_t>{1, kTileRows, 1, 100});
  make(kEnough - kTileRows);
  CHECK(plan.num_tiles() == 0);
}

}  // namespace
}  // namespace runnel
