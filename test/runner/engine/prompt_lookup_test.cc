#include "runner/engine/prompt_lookup.h"

#include <algorithm>
#include <optional>
#include <random>

#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using Ids = std::vector<uint32_t>;

// The drafts that a new lookup appends to these ids.
Ids drafts_of(Ids ids, uint32_t max_drafts) {
  PromptLookup lookup;
  const size_t num_ids = ids.size();
  const uint32_t num_drafts = lookup.append_drafts(ids, max_drafts);
  CHECK(num_drafts == ids.size() - num_ids);
  return {ids.begin() + static_cast<ptrdiff_t>(num_ids), ids.end()};
}

// The expected drafts, by a search through all ids.
Ids drafts_by_search(const Ids& ids, uint32_t max_drafts) {
  constexpr size_t kMatch = PromptLookup::kMatchTokens;
  if (ids.size() <= kMatch) return {};
  for (size_t behind = ids.size() - 1; behind >= kMatch; --behind) {
    if (!std::equal(ids.end() - kMatch, ids.end(), ids.begin() + static_cast<ptrdiff_t>(behind - kMatch)))
      continue;
    Ids extended = ids;
    for (uint32_t i = 0; i < max_drafts; ++i) extended.push_back(extended[behind + i]);
    return {extended.begin() + static_cast<ptrdiff_t>(ids.size()), extended.end()};
  }
  return {};
}

}  // namespace

TEST_CASE("prompt lookup: a text goes on as it did when its last three tokens last came") {
  CHECK(drafts_of({1, 2, 3, 4, 5, 6, 9, 1, 2, 3}, 4) == Ids{4, 5, 6, 9});
  CHECK(drafts_of({1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 1, 2, 3}, 1) == Ids{5});
  CHECK(drafts_of({1, 2, 3, 4, 5, 6, 9, 7, 2, 3}, 4).empty());
  CHECK(drafts_of({}, 4).empty());
  CHECK(drafts_of({1, 1, 1}, 4).empty());
}

TEST_CASE("prompt lookup: a text with a short period is continued by its own drafts") {
  CHECK(drafts_of({7, 7, 7, 7}, 5) == Ids{7, 7, 7, 7, 7});
  CHECK(drafts_of({1, 2, 1, 2, 1}, 5) == Ids{2, 1, 2, 1, 2});
}

TEST_CASE("prompt lookup: as a sequence grows it finds what a search through all of it finds") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  uint32_t num_found = 0;
  uint32_t num_missed = 0;
  for (uint32_t round = 0; round < 40; ++round) {
    const uint32_t num_kinds = 1 + static_cast<uint32_t>(random() % 12);
    PromptLookup lookup;
    Ids ids;
    while (ids.size() < 600) {
      // Several ids come between two calls, as happens while there is no room for drafts.
      for (uint64_t i = random() % 20; i > 0; --i) ids.push_back(static_cast<uint32_t>(random() % num_kinds));
      const uint32_t max_drafts = static_cast<uint32_t>(random() % 8);
      Ids extended = ids;
      lookup.append_drafts(extended, max_drafts);
      const Ids drafts(extended.begin() + static_cast<ptrdiff_t>(ids.size()), extended.end());
      const Ids expected = drafts_by_search(ids, max_drafts);
      num_found += drafts == expected && !expected.empty();
      // Two runs of ids may share a slot. Then the earlier one is not found, but no wrong one is found for
      // it.
      if (drafts == expected) continue;
      ++num_missed;
      CHECK(drafts.empty());
    }
  }
  CHECK(num_found > 500);
  CHECK(num_missed < num_found / 10);
}

TEST_CASE(
    "prompt lookup: of a text longer than its memory it knows the end, and finds nothing that is not there") {
  PromptLookup lookup;
  Ids ids = count_from(0, 8 * PromptLookup::kMaxSlots);
  ids.insert(ids.end(), {0, 1, 2});  // they came 131,072 tokens ago
  Ids extended = ids;
  if (lookup.append_drafts(extended, 2) > 0) CHECK(extended.back() == 4);
  const uint32_t late = 8 * PromptLookup::kMaxSlots - 9;
  ids.insert(ids.end(), {late, late + 1, late + 2});
  lookup.append_drafts(ids, 2);
  CHECK(ids.back() == late + 4);
}

}  // namespace runnel
