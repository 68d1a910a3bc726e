#include "runner/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "runner/sampling/exp_sum.h"
#include "runner/sampling/gumbel.h"
#include "runner/sampling/id_bits.h"
#include "runner/sampling/philox.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct Entry {
  double logit;
  uint32_t id;
};

// The candidates by the definition in docs/numerics.md, with full sorts and the functions of the C library,
// most likely first.
std::vector<Entry> reference_candidates(const std::vector<float>& logits,
                                        const std::vector<uint32_t>& token_ids, uint32_t num_prompt_tokens,
                                        const SamplingParams& params,
                                        const std::vector<uint32_t>& masked_ids) {
  const auto contains = [](const std::vector<uint32_t>& ids, uint32_t id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  std::vector<Entry> entries;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    if (!params.allowed_ids.empty() && !contains(params.allowed_ids, id)) continue;
    if (contains(params.banned_ids, id) || contains(masked_ids, id)) continue;
    double logit = logits[id];
    for (const LogitBias& entry : params.logit_bias)
      if (entry.token_id == id) logit += entry.bias;
    if (contains(token_ids, id)) {
      const double penalty = params.repetition_penalty;
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
    const auto num_generated = std::count(token_ids.begin() + num_prompt_tokens, token_ids.end(), id);
    if (num_generated > 0)
      logit -= params.presence_penalty + static_cast<double>(params.frequency_penalty) * num_generated;
    entries.push_back({params.temperature > 0 ? logit / static_cast<double>(params.temperature) : logit, id});
  }
  std::ranges::stable_sort(entries, [](const Entry& a, const Entry& b) { return a.logit > b.logit; });
  if (params.temperature < 1e-6f) entries.resize(1);
  if (params.top_k > 0 && params.top_k < entries.size()) entries.resize(params.top_k);

  const double max = entries[0].logit;
  const auto weight = [max](const Entry& entry) {
    return static_cast<uint64_t>(std::exp(entry.logit - max) * 0x1p39);
  };
  uint64_t total = 0;
  for (const Entry& entry : entries) total += weight(entry);
  const double needed = std::ceil(static_cast<double>(params.top_p) * static_cast<double>(total));
  uint64_t mass = 0;
  size_t num_kept = 0;
  do {
    mass += weight(entries[num_kept++]);
  } while (num_kept < entries.size() && (params.top_p >= 1.0f || static_cast<double>(mass) < needed));
  entries.resize(num_kept);
  std::erase_if(entries, [&](const Entry& entry) { return std::exp(entry.logit - max) < params.min_p; });
  return entries;
}

std::vector<uint32_t> ids_of(const std::vector<Entry>& entries) {
  std::vector<uint32_t> ids;
  for (const Entry& entry : entries) ids.push_back(entry.id);
  std::ranges::sort(ids);
  return ids;
}

uint32_t reference_sample(const std::vector<float>& logits, const std::vector<uint32_t>& token_ids,
                          uint32_t num_prompt_tokens, const SamplingParams& params,
                          const std::vector<uint32_t>& masked_ids) {
  const auto score = [&](const Entry& entry) {
    const uint32_t position = static_cast<uint32_t>(token_ids.size());
    const std::array<uint32_t, 2> key = {static_cast<uint32_t>(params.seed),
                                         static_cast<uint32_t>(params.seed >> 32)};
    const uint32_t bits = philox4x32({entry.id / 4, position, 0, 0}, key)[entry.id % 4];
    return entry.logit - std::log(-std::log((bits + 0.5) / 4294967296.0));
  };
  const auto entries = reference_candidates(logits, token_ids, num_prompt_tokens, params, masked_ids);
  return std::ranges::max_element(entries, {}, score)->id;
}

std::vector<float> random_logits(std::mt19937_64& random, uint32_t vocab_size, float spread) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(vocab_size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

uint32_t sample_one(const std::vector<float>& logits, const SamplingParams& params,
                    const std::vector<uint32_t>& token_ids = {0}, uint32_t num_prompt_tokens = 1) {
  return Sampler(static_cast<uint32_t>(logits.size())).sample(logits, token_ids, num_prompt_tokens, params);
}

// All ids that 2,000 draws give.
std::vector<uint32_t> drawn_ids(const std::vector<float>& logits, SamplingParams params) {
  std::map<uint32_t, uint32_t> counts;
  for (params.seed = 0; params.seed < 2000; ++params.seed) ++counts[sample_one(logits, params)];
  std::vector<uint32_t> ids;
  for (const auto& [id, count] : counts) ids.push_back(id);
  return ids;
}

}  // namespace

TEST_CASE("philox: the test vectors of its authors") {
  using Numbers = std::array<uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Numbers{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        Numbers{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Numbers{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("sampler: it samples as defined, for any logits and parameters") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Sampler sampler(1000);
  const auto one_of = [&](auto... values) {
    const std::vector<double> all = {static_cast<double>(values)...};
    return all[random() % all.size()];
  };
  for (uint32_t i = 0; i < 2000; ++i) {
    std::vector<float> logits = random_logits(random, 1000, static_cast<float>(one_of(0.1, 2, 8)));
    // Ties, some of them at the edge of what top_k and top_p keep.
    const auto num_steps = static_cast<float>(one_of(0, 0, 1, 4));
    if (num_steps > 0)
      for (float& logit : logits) logit = std::round(logit * num_steps) / num_steps;
    std::vector<uint32_t> token_ids(1 + random() % 50);
    for (uint32_t& id : token_ids) id = random() % 1000;
    const auto num_prompt_tokens = static_cast<uint32_t>(1 + random() % token_ids.size());
    std::vector<LogitBias> biases(static_cast<size_t>(one_of(0, 0, 1, 30)));
    for (LogitBias& entry : biases)
      entry = {static_cast<uint32_t>(random() % 1000), static_cast<float>(one_of(-100, -1, 0.3, 5))};
    const auto some_ids = [&](size_t num_ids) {
      std::vector<uint32_t> ids(num_ids);
      for (uint32_t& id : ids) id = random() % 999;  // 999 is never banned
      return ids;
    };
    std::vector<uint32_t> allowed = some_ids(static_cast<size_t>(one_of(0, 0, 5, 600)));
    if (!allowed.empty()) allowed.push_back(999);
    const std::vector<uint32_t> masked = some_ids(static_cast<size_t>(one_of(0, 0, 3)));
    const SamplingParams params{.temperature = static_cast<float>(one_of(0, 1e-7, 0.3, 1, 1.7, 100)),
                                .top_k = static_cast<uint32_t>(one_of(0, 1, 2, 40, 999, 5000)),
                                .top_p = static_cast<float>(one_of(0, 0.5, 0.9, 0.999, 1)),
                                .min_p = static_cast<float>(one_of(0, 0.01, 0.3)),
                                .repetition_penalty = static_cast<float>(one_of(0.5, 1, 1, 1.3)),
                                .presence_penalty = static_cast<float>(one_of(-2, 0, 0, 0.7)),
                                .frequency_penalty = static_cast<float>(one_of(-0.1, 0, 0, 2)),
                                .logit_bias = biases,
                                .allowed_ids = allowed,
                                .banned_ids = some_ids(static_cast<size_t>(one_of(0, 0, 1, 500))),
                                .seed = random()};
    CAPTURE(i);
    CHECK(sampler.sample(logits, token_ids, num_prompt_tokens, params, masked) ==
          reference_sample(logits, token_ids, num_prompt_tokens, params, masked));
    if (params.temperature < kGreedyTemperature) continue;
    CHECK(sampler.kept_ids() ==
          ids_of(reference_candidates(logits, token_ids, num_prompt_tokens, params, masked)));
  }
}

TEST_CASE(
    "sampler: a tail too unlikely to have weight does not make top_p keep another of two equal tokens") {
  // The weight of exp(-60) is 0, so the first token alone has half of all weight.
  Sampler sampler(3);
  (void)sampler.sample(std::vector<float>{10.0f, 10.0f, -50.0f}, std::vector<uint32_t>{0}, 1,
                       {.top_p = 0.5f});
  CHECK(sampler.kept_ids() == std::vector<uint32_t>{0});
}

TEST_CASE("sampler: bits allow the same ids as a list, after bans and before filters") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr uint32_t kVocabSize = 300;
  Sampler sampler(kVocabSize);
  for (int i = 0; i < 300; ++i) {
    const std::vector<float> logits = random_logits(random, kVocabSize, 3.0f);
    SamplingParams params{
        .temperature = 0.9f, .top_k = 20, .top_p = 0.9f, .repetition_penalty = 1.3f, .seed = random()};
    params.logit_bias = {{7, 5.0f}, {8, 100.0f}};
    params.banned_ids = {8, 9};
    std::vector<uint32_t> bits(num_id_words(kVocabSize));
    SamplingParams listed = params;
    for (uint32_t id = 0; id < kVocabSize; ++id) {
      if (id != 7 && random() % 10 > 0) continue;
      set_id(bits, id, true);
      listed.allowed_ids.push_back(id);
    }
    const std::vector<uint32_t> token_ids = {1, 7, 20};
    CHECK(sampler.sample(logits, token_ids, 1, params, {}, bits) ==
          sampler.sample(logits, token_ids, 1, listed));
  }
}

TEST_CASE("sampler: 100,000 samples have the frequencies that each filter leaves") {
  std::mt19937_64 random(20250101);
  const std::vector<float> logits = random_logits(random, 40, 1.5f);
  const std::vector<uint32_t> even = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  const std::vector<uint32_t> banned = {4, 11, 20, 39};
  const std::pair<std::string, SamplingParams> settings[] = {
      {"plain", {.temperature = 0.8f}},
      {"top_k", {.top_k = 12}},
      {"top_p", {.top_p = 0.9f}},
      {"min_p", {.min_p = 0.03f}},
      {"allowed, banned", {.allowed_ids = even, .banned_ids = banned}},
      {"all of it", {.temperature = 1.4f, .top_k = 25, .top_p = 0.95f, .min_p = 0.02f, .banned_ids = banned}},
  };
  constexpr uint32_t kNumDraws = 100000;
  const std::vector<uint32_t> token_ids(kNumDraws);
  const std::vector<uint32_t> masked = {7, 13};
  Sampler sampler(static_cast<uint32_t>(logits.size()));
  for (auto [name, params] : settings) {
    CAPTURE(name);
    params.seed = 77;
    std::vector<uint32_t> counts(logits.size());
    for (uint32_t position = 0; position < kNumDraws; ++position)
      ++counts[sampler.sample(logits, std::span(token_ids).first(position), position, params, masked)];

    const std::vector<Entry> left = reference_candidates(logits, {}, 0, params, masked);
    REQUIRE(left.size() > 5);
    double total = 0;
    for (const Entry& entry : left) total += std::exp(entry.logit);
    double chi_square = 0;
    uint32_t num_counted = 0;
    for (const Entry& entry : left) {
      const double expected = kNumDraws * std::exp(entry.logit) / total;
      chi_square += (counts[entry.id] - expected) * (counts[entry.id] - expected) / expected;
      num_counted += counts[entry.id];
    }
    CHECK(num_counted == kNumDraws);
    // With n degrees of freedom chi square has the mean n and the variance 2n. Five standard deviations above
    // the mean are about one case in a million.
    const auto num_degrees = static_cast<double>(left.size() - 1);
    CHECK(chi_square < num_degrees + 5 * std::sqrt(2 * num_degrees) + 5);
  }
}

TEST_CASE("sampler: temperature 0 and close to it take the most likely token, ties the lowest id") {
  const std::vector<float> logits = {1.0f, 3.0f, -2.0f, 3.0f};
  CHECK(sample_one(logits, {.temperature = 0.0f}) == 1);
  CHECK(sample_one(logits, {.temperature = 1e-7f, .seed = 5}) == 1);
  CHECK(drawn_ids(logits, {.temperature = 1e-6f}) == std::vector<uint32_t>{1, 3});
}

TEST_CASE("sampler: top_k keeps exactly k, ties by the lowest id") {
  const std::vector<float> logits = {0.0f, 1.0f, 0.5f, 0.5f, 0.5f, 0.5f};
  CHECK(drawn_ids(logits, {.top_k = 3}) == std::vector<uint32_t>{1, 2, 3});
  CHECK(drawn_ids(logits, {.top_k = 1}) == std::vector<uint32_t>{1});
  CHECK(drawn_ids(logits, {.top_k = 6}).size() == 6);
}

TEST_CASE("sampler: top_p keeps the smallest set that reaches p, one token at least") {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const float ln2 = std::log(2.0f);
  const std::vector<float> logits = {-ln2, 1 * 0.0f, -2 * ln2, -2 * ln2};
  CHECK(drawn_ids(logits, {.top_p = 0.0f}) == std::vector<uint32_t>{1});
  CHECK(drawn_ids(logits, {.top_p = 0.49f}) == std::vector<uint32_t>{1});
  CHECK(drawn_ids(logits, {.top_p = 0.51f}) == std::vector<uint32_t>{0, 1});
  CHECK(drawn_ids(logits, {.top_p = 0.8f}) == std::vector<uint32_t>{0, 1, 2});
  CHECK(drawn_ids(logits, {.top_p = 0.9f}).size() == 4);
  // top_p applies to what top_k keeps: probabilities of 2/3 and 1/3.
  CHECK(drawn_ids(logits, {.top_k = 2, .top_p = 0.6f}) == std::vector<uint32_t>{1});
}

TEST_CASE("sampler: min_p keeps what is likely enough beside the most likely") {
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, 2.0f};
  CHECK(drawn_ids(logits, {.min_p = 0.3f}) == std::vector<uint32_t>{1, 2, 3});
  CHECK(drawn_ids(logits, {.min_p = 0.4f}) == std::vector<uint32_t>{1, 3});
  CHECK(drawn_ids(logits, {.min_p = 1.0f}) == std::vector<uint32_t>{1, 3});
}

TEST_CASE("sampler: the repetition penalty counts every distinct id once, prompt and answer alike") {
  const std::vector<float> logits = {4.0f, 3.0f, -1.0f, -1.5f};
  CHECK(sample_one(logits, {.temperature = 0.0f, .repetition_penalty = 1.3f}, {0, 0, 0}) == 0);
  CHECK(sample_one(logits, {.temperature = 0.0f, .repetition_penalty = 1.4f}, {0}) == 1);
  CHECK(sample_one(logits, {.temperature = 0.0f, .repetition_penalty = 0.5f}, {1, 2}) == 1);
  const std::vector<float> negative = {-1.0f, -1.5f};
  CHECK(sample_one(negative, {.temperature = 0.0f, .repetition_penalty = 1.6f}, {0}) == 1);
}

TEST_CASE("sampler: presence and frequency penalty count generated tokens only, once and each time") {
  const std::vector<float> logits = {4.0f, 3.0f, 1.0f};
  const auto greedy = [&](float presence, float frequency, const std::vector<uint32_t>& token_ids,
                          uint32_t num_prompt_tokens) {
    const SamplingParams params{
        .temperature = 0.0f, .presence_penalty = presence, .frequency_penalty = frequency};
    return sample_one(logits, params, token_ids, num_prompt_tokens);
  };
  CHECK(greedy(2.0f, 0.0f, {0, 0, 0}, 3) == 0);
  CHECK(greedy(2.0f, 0.0f, {2, 0}, 1) == 1);
  CHECK(greedy(0.9f, 0.0f, {2, 0, 0, 0, 0}, 1) == 0);
  CHECK(greedy(0.0f, 0.9f, {0, 0, 0, 0, 2}, 4) == 0);
  CHECK(greedy(0.0f, 0.9f, {2, 0}, 1) == 0);
  CHECK(greedy(0.0f, 0.9f, {2, 0, 0}, 1) == 1);
  CHECK(greedy(-2.0f, 0.0f, {0, 1}, 1) == 1);
  CHECK(greedy(0.0f, -1.1f, {0, 2, 2, 2}, 1) == 2);
}

TEST_CASE("sampler: logit bias bans and forces ids, adds up, and comes before the penalties") {
  const std::vector<float> logits = {4.0f, 3.0f, -20.0f};
  CHECK(sample_one(logits, {.temperature = 0.0f, .logit_bias = {{0, -100.0f}}}) == 1);
  CHECK(drawn_ids(logits, {.logit_bias = {{2, 100.0f}}}) == std::vector<uint32_t>{2});
  CHECK(sample_one(logits, {.temperature = 0.0f, .logit_bias = {{1, 0.6f}, {1, 0.6f}}}) == 1);
  CHECK(sample_one({4.0f, 3.0f}, {.temperature = 0.0f, .repetition_penalty = 2.0f, .logit_bias = {{0, 1.5f}}},
                   {0}) == 1);  // (4 + 1.5) / 2 is below 3, 4 / 2 + 1.5 is not
}

TEST_CASE("sampler: only allowed ids are sampled, never banned or masked ones, whatever their bias") {
  const std::vector<float> logits = {4.0f, 3.0f, 2.0f, 1.0f, 0.0f};
  CHECK(drawn_ids(logits, {.allowed_ids = {2, 4, 2}}) == std::vector<uint32_t>{2, 4});
  CHECK(drawn_ids(logits, {.banned_ids = {0, 3}}) == std::vector<uint32_t>{1, 2, 4});
  CHECK(drawn_ids(logits, {.allowed_ids = {2, 3, 4}, .banned_ids = {3}}) == std::vector<uint32_t>{2, 4});
  const SamplingParams forced{.temperature = 0.0f, .logit_bias = {{0, 100.0f}}, .allowed_ids = {3, 4}};
  CHECK(sample_one(logits, forced) == 3);
  // Filters see only what the masks leave, and probabilities are among these ids.
  CHECK(drawn_ids(logits, {.top_k = 2, .banned_ids = {0}}) == std::vector<uint32_t>{1, 2});
  CHECK(drawn_ids(logits, {.top_p = 0.7f, .banned_ids = {0, 1, 2}}) == std::vector<uint32_t>{3});
  CHECK(drawn_ids(logits, {.min_p = 0.9f, .allowed_ids = {4}}) == std::vector<uint32_t>{4});
  const std::vector<uint32_t> token_ids = {0, 0};
  const std::vector<uint32_t> masked = {0, 1};
  Sampler sampler(5);
  CHECK(sampler.sample(logits, token_ids, 1, {.temperature = 0.0f, .presence_penalty = -2.0f}, masked) == 2);
  // The draw before does not affect the next one.
  CHECK(sampler.sample(logits, token_ids, 1, {.temperature = 0.0f}) == 0);
}

TEST_CASE("sampler: over a large vocabulary the filters keep what the definition keeps") {
  std::mt19937_64 random(5);
  const std::vector<float> logits = random_logits(random, 60000, 0.05f);
  const std::vector<uint32_t> token_ids = {1, 2, 3};
  Sampler sampler(60000);
  for (const float top_p : {0.0f, 0.3f, 0.95f, 0.9999f, 1.0f}) {
    for (const uint32_t top_k : {0u, 1023u, 1024u, 1025u, 1026u, 59999u}) {
      CAPTURE(top_p);
      CAPTURE(top_k);
      const SamplingParams params{.top_k = top_k, .top_p = top_p, .seed = random()};
      CHECK(sampler.sample(logits, token_ids, 3, params) ==
            reference_sample(logits, token_ids, 3, params, {}));
      const auto kept = ids_of(reference_candidates(logits, token_ids, 3, params, {}));
      // Not compared inside CHECK, which would print both lists if they differ.
      const bool is_same = sampler.kept_ids() == kept;
      CHECK(is_same);
      if (top_p == 1.0f) CHECK(kept.size() == (top_k == 0 ? 60000 : top_k));
    }
  }
}

TEST_CASE("sampler: a token that lacks the least part of p needs the next one beside it") {
  // The likelier of two tokens has the weight 2^39. The test searches a logit of the other one and a p for
  // which this weight lacks only a fraction of one unit.
  const auto total_of = [](float logit) { return (uint64_t{1} << 39) + exp_weight(logit); };
  const auto p_of = [&](float logit) {
    const double share = 0x1p39 / static_cast<double>(total_of(logit));
    const auto p = static_cast<float>(share);
    return p > share ? p : std::nextafter(p, 1.0f);
  };
  const auto lacking = [&](float logit) {
    return static_cast<double>(p_of(logit)) * static_cast<double>(total_of(logit)) - 0x1p39;
  };
  float logit = -1.0f;
  for (int i = 0; i < 100'000 && (lacking(logit) < 0.01 || lacking(logit) > 0.99); ++i)
    logit = std::nextafter(logit, 0.0f);
  REQUIRE(lacking(logit) > 0.01);
  REQUIRE(lacking(logit) < 0.99);
  const std::vector<float> logits = {0.0f, logit};
  CHECK(drawn_ids(logits, {.top_p = p_of(logit)}) == std::vector<uint32_t>{0, 1});
  CHECK(drawn_ids(logits, {.top_p = std::nextafter(p_of(logit), 0.0f)}) == std::vector<uint32_t>{0});
  // A sum of exactly p is enough.
  CHECK(drawn_ids({0.0f, 0.0f}, {.top_p = 0.5f}) == std::vector<uint32_t>{0});
  CHECK(drawn_ids({0.0f, 0.0f, 0.0f, 0.0f}, {.top_p = 0.75f}) == std::vector<uint32_t>{0, 1, 2});
}

TEST_CASE("sampler: a sample depends on the position and all 64 bits of the seed") {
  const std::vector<float> logits(5000, 0.0f);
  const uint64_t top_bit = uint64_t{1} << 63;
  CHECK(sample_one(logits, {.seed = 7}) == sample_one(logits, {.seed = 7}));
  CHECK(sample_one(logits, {.seed = 7}) != sample_one(logits, {.seed = 7 | top_bit}));
  CHECK(sample_one(logits, {.seed = 18446744073709551615u}) != sample_one(logits, {.seed = 4294967295u}));
  CHECK(sample_one(logits, {.seed = 7}, {1, 2}) != sample_one(logits, {.seed = 7}, {1, 2, 3}));
  CHECK(sample_one(logits, {.seed = 7}, {1, 2}) == sample_one(logits, {.seed = 7}, {3, 4}));
}

TEST_CASE("sampler: logits that are no numbers are noticed") {
  CHECK(all_finite(std::vector<float>{0.0f, -3e38f}));
  CHECK_FALSE(all_finite(std::vector<float>{0.0f, std::nanf("")}));
  CHECK_FALSE(all_finite(std::vector<float>{std::numeric_limits<float>::infinity()}));
}

}  // namespace runnel
