#include "cuda-runner/device_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "runner/sampling/id_bits.h"
#include "runner/sampling/sampler.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// The sequence, parameters and logits of a draw.
struct Case {
  std::vector<float> logits;
  std::vector<uint32_t> token_ids;
  uint32_t num_prompt_tokens = 1;
  SamplingParams params;
  std::vector<uint32_t> masked_ids;
  std::vector<uint32_t> allowed_bits;
};

using Ids = std::vector<std::optional<uint32_t>>;

Ids drawn_by_cpu(const std::vector<Case>& cases) {
  Ids ids;
  for (const Case& each : cases) {
    Sampler sampler(static_cast<uint32_t>(each.logits.size()));
    if (!all_finite(each.logits)) {
      ids.push_back(std::nullopt);
    } else {
      ids.push_back(sampler.sample(each.logits, each.token_ids, each.num_prompt_tokens, each.params,
                                   each.masked_ids, each.allowed_bits));
    }
  }
  return ids;
}

Ids launched(DeviceSampler& sampler, const std::vector<HeadRow>& rows, const DeviceBuffer<float>& logits,
             const DeviceBuffer<uint32_t>& positions, Stream& stream) {
  auto drawn = *DrawnIds::allocate(static_cast<uint32_t>(rows.size()));
  sampler.launch(rows, logits.view(), positions.view(), drawn, stream);
  Ids ids;
  uint32_t num_draws = 0;
  for (const HeadRow& row : rows) ids.push_back(row.draw ? drawn.at(num_draws++) : std::nullopt);
  return ids;
}

// Draws all cases in one launch, or in parts if their lists have more words than max_list_words.
Ids drawn_by_device(const std::vector<Case>& cases, size_t max_list_words = kMaxListWords) {
  Stream stream;
  const size_t vocab_size = cases[0].logits.size();
  auto logits = *DeviceBuffer<float>::allocate(cases.size() * vocab_size, "logits");
  auto host_logits = *PinnedBuffer<float>::allocate(logits.size(), "logits");
  auto positions = *DeviceBuffer<uint32_t>::allocate(cases.size(), "positions");
  auto host_positions = *PinnedBuffer<uint32_t>::allocate(cases.size(), "positions");
  std::vector<HeadRow> rows;
  std::vector<HeadRow> odd_rows;
  for (uint32_t row = 0; row < cases.size(); ++row) {
    const Case& each = cases[row];
    std::ranges::copy(each.logits, host_logits.span().subspan(row * vocab_size).begin());
    host_positions.span()[row] = static_cast<uint32_t>(each.token_ids.size()) - 1;
    rows.push_back(
        {row, Draw{each.token_ids, each.num_prompt_tokens, each.params, each.masked_ids, each.allowed_bits}});
    odd_rows.push_back(row % 2 == 1 ? rows.back() : HeadRow{row});
  }
  stream.upload(logits, 0, host_logits.part(0, logits.size()));
  stream.upload(positions, 0, host_positions.part(0, cases.size()));
  auto sampler = *DeviceSampler::allocate(static_cast<uint32_t>(cases.size()),
                                          static_cast<uint32_t>(vocab_size), max_list_words);
  Ids ids = launched(sampler, rows, logits, positions, stream);
  // Another launch is given to the device before the ids of the first are read.
  auto first = *DrawnIds::allocate(static_cast<uint32_t>(rows.size()));
  auto second = *DrawnIds::allocate(static_cast<uint32_t>(rows.size()));
  sampler.launch(odd_rows, std::as_const(logits).view(), std::as_const(positions).view(), first, stream);
  sampler.launch(rows, std::as_const(logits).view(), std::as_const(positions).view(), second, stream);
  for (uint32_t row = 0; row < rows.size(); ++row) {
    if (row % 2 == 1) REQUIRE(first.at(row / 2) == ids[row]);
    REQUIRE(second.at(row) == ids[row]);
  }
  // The same draws again, which are on the device already.
  REQUIRE(launched(sampler, rows, logits, positions, stream) == ids);
  // The next launch is not affected by these, and a row without a draw has no result.
  const Ids odd_ids = launched(sampler, odd_rows, logits, positions, stream);
  for (size_t row = 0; row < rows.size(); ++row)
    REQUIRE(odd_ids[row] == (row % 2 == 1 ? ids[row] : std::nullopt));
  return ids;
}

class RandomCases {
 public:
  RandomCases(uint64_t seed, uint32_t vocab_size) : random_(seed), vocab_size_(vocab_size) {}

  Case next() {
    Case made;
    made.logits = logits();
    made.token_ids = ids(1 + below(60));
    made.num_prompt_tokens = 1 + below(static_cast<uint32_t>(made.token_ids.size()));
    // The last id is never masked.
    std::vector<uint32_t> allowed = ids(one_of({0, 0, 0, 5, 1000}));
    if (!allowed.empty()) allowed.push_back(vocab_size_ - 1);
    made.masked_ids = maskable_ids(one_of({0, 0, 3}));
    made.allowed_bits = bits(one_of({0, 0, 0, 1, 40, 2 * vocab_size_}));
    std::vector<LogitBias> biases(one_of({0, 0, 1, 40}));
    for (LogitBias& bias : biases)
      bias = {below(vocab_size_), static_cast<float>(real_of({-100, -1.7, 0.3, 5}))};
    made.params = {.temperature = static_cast<float>(real_of({0, 1e-7, 1e-6, 0.3, 1, 1.7, 100})),
                   .top_k = one_of({0, 0, 1, 2, 40, vocab_size_ - 1, vocab_size_, 1u << 30}),
                   .top_p = static_cast<float>(real_of({0, 1e-30, 0.5, 0.9, 0.999, 1, 1})),
                   .min_p = static_cast<float>(real_of({0, 0, 1e-42, 0.01, 0.3, 1})),
                   .repetition_penalty = static_cast<float>(real_of({0.5, 1, 1, 1.3, 1e-40})),
                   .presence_penalty = static_cast<float>(real_of({-2, 0, 0, 0.7})),
                   .frequency_penalty = static_cast<float>(real_of({-0.1, 0, 0, 2})),
                   .logit_bias = biases,
                   .allowed_ids = allowed,
                   .banned_ids = maskable_ids(one_of({0, 0, 1, 900})),
                   .seed = random_()};
    return made;
  }

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

 private:
  uint32_t one_of(std::vector<uint32_t> values) {
    return values[below(static_cast<uint32_t>(values.size()))];
  }
  double real_of(std::vector<double> values) { return values[below(static_cast<uint32_t>(values.size()))]; }

  std::vector<float> logits() {
    const auto spread = static_cast<float>(real_of({0, 0.1, 2, 8, 1e-43, 1e30, 3e38}));
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    std::vector<float> values(vocab_size_);
    for (float& value : values) value = spread * std::pow(uniform(random_), 3.0f);
    // Ties, some of them at the edge of what is kept, and zeros of both signs.
    const auto num_steps = static_cast<float>(real_of({0, 0, 1, 4}));
    if (num_steps > 0.0f && spread < 10.0f)
      for (float& value : values) value = std::round(value * num_steps) / num_steps;
    return values;
  }
  std::vector<uint32_t> ids(uint32_t count) {
    std::vector<uint32_t> all(count);
    for (uint32_t& id : all) id = below(vocab_size_);
    return all;
  }
  // The bits of `count` random ids and of the last id; empty if count is 0.
  std::vector<uint32_t> bits(uint32_t count) {
    if (count == 0) return {};
    std::vector<uint32_t> made(num_id_words(vocab_size_));
    for (const uint32_t id : ids(count)) set_id(made, id, true);
    set_id(made, vocab_size_ - 1, true);
    return made;
  }
  std::vector<uint32_t> maskable_ids(uint32_t count) {
    std::vector<uint32_t> all(count);
    for (uint32_t& id : all) id = below(vocab_size_ - 1);
    return all;
  }

  std::mt19937_64 random_;
  uint32_t vocab_size_;
};

void compare_draws(uint32_t vocab_size, uint32_t num_cases) {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  CAPTURE(vocab_size);
  RandomCases random(seed, vocab_size);
  std::vector<Case> cases(num_cases);
  for (Case& each : cases) each = random.next();
  const float not_finite[] = {NAN, INFINITY, -INFINITY};
  for (const float value : not_finite) {
    Case& broken = cases[random.below(num_cases)];
    broken.logits[random.below(vocab_size)] = value;
    if (value < 0.0f) broken.params.banned_ids.clear();
  }
  const Ids wanted = drawn_by_cpu(cases);
  const Ids drawn = drawn_by_device(cases);
  for (uint32_t i = 0; i < num_cases; ++i) {
    CAPTURE(i);
    CHECK(drawn[i] == wanted[i]);
  }
}

TEST_CASE("device sampler: it samples what the CPU does, for any logits and parameters") {
  compare_draws(7, 200);
  compare_draws(1000, 200);
  compare_draws(20001, 30);  // chunks of several quads for a thread, the last quad incomplete
  compare_draws(49152, 12);
}

TEST_CASE("device sampler: candidates far below the most likely one are drawn where they are many") {
  constexpr uint32_t kVocabSize = 2048;
  RandomCases random(8, kVocabSize);
  const SamplingParams bounds[] = {
      {}, {.min_p = 0.2f}, {.min_p = 1e-4f}, {.top_k = 500}, {.top_k = 500, .top_p = 0.9f}, {.top_p = 0.8f}};
  std::vector<Case> cases;
  // One likely candidate, and many others in reach of it by noise alone; then candidates in many bins.
  for (const float depth : {7.0f, 12.0f}) {
    for (uint32_t i = 0; i < 48; ++i) {
      Case made{.logits = std::vector<float>(kVocabSize),
                .token_ids = {0},
                .params = bounds[i % std::size(bounds)],
                .masked_ids = {},
                .allowed_bits = {}};
      for (float& logit : made.logits)
        logit = -depth * (depth < 10.0f ? 1.0f : static_cast<float>(random.below(1000)) * 1e-3f);
      made.logits[random.below(kVocabSize)] = 0.0f;
      made.params.seed = i;
      cases.push_back(std::move(made));
    }
  }
  CHECK(drawn_by_device(cases) == drawn_by_cpu(cases));
}

TEST_CASE(
    "device sampler: the whole row is read if top_k or top_p may keep more candidates than are copied") {
  constexpr uint32_t kVocabSize = 3 * kMaxGathered;
  RandomCases random(6, kVocabSize);
  const SamplingParams bounds[] = {{.top_k = kMaxGathered + 1},
                                   {.top_p = 0.9f},
                                   {.top_k = 2 * kMaxGathered, .top_p = 0.8f},
                                   {.top_p = 0.7f, .min_p = 0.9f},
                                   {.top_p = 0.9999f, .logit_bias = {{5, 0.25f}}, .banned_ids = {6, 7}}};
  std::vector<Case> cases;
  // Logits that are nearly alike, so that one bin has all of them, and logits that are all alike.
  for (const float spread : {0.5f, 0.0f}) {
    for (const SamplingParams& params : bounds) {
      Case made{.logits = std::vector<float>(kVocabSize),
                .token_ids = {0},
                .params = params,
                .masked_ids = {},
                .allowed_bits = {}};
      for (float& logit : made.logits) logit = spread * static_cast<float>(random.below(1000)) * 1e-3f;
      made.params.seed = cases.size();
      cases.push_back(std::move(made));
    }
  }
  CHECK(drawn_by_device(cases) == drawn_by_cpu(cases));
}

TEST_CASE("device sampler: lists that are too long together are sent in parts") {
  constexpr uint32_t kVocabSize = 500;
  RandomCases random(7, kVocabSize);
  std::vector<Case> cases(100);
  for (Case& each : cases) each = random.next();
  CHECK(drawn_by_device(cases, 1) == drawn_by_cpu(cases));
  CHECK(drawn_by_device(cases, 3 * DrawLists::max_words(kVocabSize)) == drawn_by_cpu(cases));
}

TEST_CASE("device sampler: rows with non-finite logits are reported, and the others sampled") {
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Case> cases(
      4, Case{.logits = {0, 3, 1}, .token_ids = {0}, .params = {}, .masked_ids = {}, .allowed_bits = {}});
  for (Case& each : cases) each.params.temperature = 0.0f;
  cases[1].logits[0] = kNan;
  cases[1].params.banned_ids = {0};
  cases[2].logits[2] = -INFINITY;
  CHECK(drawn_by_device(cases) == Ids{1, std::nullopt, std::nullopt, 1});
}

TEST_CASE("device sampler: biases of one id are added in their order") {
  // In another order the small bias is lost in the rounding of the large ones.
  const SamplingParams params{.temperature = 0.0f, .logit_bias = {{0, 100.0f}, {0, -100.0f}, {0, 1e-17f}}};
  const std::vector<Case> cases = {{.logits = {1e-30f, 5e-18f, -1.0f},
                                    .token_ids = {0},
                                    .params = params,
                                    .masked_ids = {},
                                    .allowed_bits = {}}};
  CHECK(drawn_by_device(cases) == Ids{0});
  CHECK(drawn_by_cpu(cases) == Ids{0});
}

TEST_CASE("device sampler: the longest lists that a request may have are applied") {
  std::vector<Case> cases(2);
  for (Case& each : cases) {
    each.logits.assign(4096, 1e-3f);
    each.token_ids.resize(6000);
    for (uint32_t i = 0; i < 6000; ++i) each.token_ids[i] = i % 4096;
    each.params.repetition_penalty = 1.1f;
    each.params.frequency_penalty = 0.25f;
    for (uint32_t i = 0; i < kMaxLogitBiases; ++i)
      each.params.logit_bias.push_back({i % 7, i % 3 == 0 ? 99.9f : -0.1f * static_cast<float>(i % 11)});
    for (uint32_t i = 0; i < kMaxMaskedIds; ++i) {
      each.params.allowed_ids.push_back(i);
      each.params.banned_ids.push_back(4095 - i);
    }
    each.masked_ids.assign(kMaxStopIds, 2);
    each.allowed_bits.assign(num_id_words(4096), 0xfffffff7);
  }
  cases[1].params.temperature = 0.0f;
  CHECK(drawn_by_device(cases) == drawn_by_cpu(cases));
}

}  // namespace
}  // namespace runnel
