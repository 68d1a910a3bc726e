#include "runner/engine/speculation.h"

#include <random>

#include "test/unit_test.h"

namespace runnel {
namespace {

struct Counts {
  uint32_t num_steps = 0;
  uint32_t num_drafts = 0;
  uint32_t num_accepted = 0;
};

// Generates this text after its first num_prompt_tokens tokens, with drafts where there are any.
Counts draw(const std::vector<uint32_t>& text, uint32_t num_prompt_tokens, uint32_t max_drafts = 7) {
  Speculation speculation;
  std::vector<uint32_t> ids(text.begin(), text.begin() + num_prompt_tokens);
  Counts counts;
  while (ids.size() < text.size()) {
    const size_t num_ids = ids.size();
    std::vector<uint32_t> drafted = ids;
    const uint32_t num_drafts = speculation.append_drafts(drafted, max_drafts);
    CHECK(num_drafts == drafted.size() - num_ids);
    CHECK(num_drafts <= max_drafts);
    ++counts.num_steps;
    counts.num_drafts += num_drafts;
    bool was_draft = true;
    while (was_draft && ids.size() < text.size()) {
      was_draft = ids.size() < drafted.size() && drafted[ids.size()] == text[ids.size()];
      ids.push_back(text[ids.size()]);
      speculation.drew(was_draft);
      counts.num_accepted += was_draft;
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("speculation: a text that repeats its prompt takes a third of the steps, or fewer") {
  std::vector<uint32_t> text;
  for (uint32_t i = 0; i < 400; ++i) text.push_back(i % 200);
  const Counts counts = draw(text, 200);
  CHECK(counts.num_accepted > 150);
  CHECK(counts.num_steps < 200 / 3);
}

TEST_CASE("speculation: rejected drafts are few: some at first, then one in 32 tokens") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  uint32_t num_drafts = 0;
  for (uint32_t round = 0; round < 100; ++round) {
    // The same three tokens come often, but the token after them is random.
    const uint64_t num_kinds = 1 + random() % 20;
    std::vector<uint32_t> text;
    while (text.size() < 1000) {
      const auto kind = static_cast<uint32_t>(random() % num_kinds);
      text.insert(text.end(), {kind, kind + 100, kind + 200, static_cast<uint32_t>(random() % 1000)});
    }
    const uint32_t num_prompt_tokens = 1 + static_cast<uint32_t>(random() % 500);
    const Counts counts = draw(text, num_prompt_tokens);
    const auto num_tokens = static_cast<uint32_t>(text.size()) - num_prompt_tokens;
    CHECK(counts.num_drafts <= Speculation::kFirstDrafts + num_tokens / Speculation::kTokensForDraft +
                                   Speculation::kDraftsForDrawn * counts.num_accepted);
    num_drafts += counts.num_drafts;
  }
  CHECK(num_drafts > 0);
}

TEST_CASE("speculation: a text that begins to repeat itself late is noticed") {
  std::vector<uint32_t> text;
  for (uint32_t i = 0; i < 2000; ++i)
    text.insert(text.end(), {1, 2, 3, 1000 + i});  // drafts are useless here
  const Counts before = draw(text, 4);
  CHECK(before.num_drafts < 8000 / 16);
  for (uint32_t i = 0; i < 400; ++i) text.push_back(i % 50 + 10000);
  const Counts after = draw(text, 4);
  CHECK(after.num_steps - before.num_steps < 400 / 2);
}

TEST_CASE("speculation: no drafts where there is no room for them") {
  const std::vector<uint32_t> text(100, 7);
  CHECK(draw(text, 50, 0).num_drafts == 0);
  CHECK(draw(text, 50, 1).num_steps < 40);
}

TEST_CASE("speculation: a step has at most kMaxDrafts drafts, however many were drawn and have room") {
  Speculation speculation;
  for (uint32_t i = 0; i < 1000; ++i) speculation.drew(true);
  std::vector<uint32_t> ids(100, 7);
  CHECK(speculation.append_drafts(ids, 50) == Speculation::kMaxDrafts);
  CHECK(ids.size() == 100 + Speculation::kMaxDrafts);
}

TEST_CASE("speculation: at most kMaxHeldDrafts are wasted after any number of accepted drafts") {
  Speculation speculation;
  for (uint32_t i = 0; i < 1000; ++i) speculation.drew(true);
  const std::vector<uint32_t> ids(20, 7);
  uint32_t num_wasted = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    std::vector<uint32_t> drafted = ids;
    num_wasted += speculation.append_drafts(drafted, Speculation::kMaxDrafts);
  }
  CHECK(num_wasted == Speculation::kMaxHeldDrafts);
}

}  // namespace runnel
