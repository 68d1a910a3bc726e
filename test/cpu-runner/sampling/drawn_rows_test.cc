#include "cpu-runner/sampling/drawn_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "runner/sampling/exp_sum.h"
#include "runner/sampling/id_bits.h"
#include "runner/sampling/sampler.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A row of logits, and the draw from it.
struct Case {
  std::vector<float> logits;
  std::vector<uint32_t> token_ids;
  uint32_t num_prompt_tokens = 0;
  SamplingParams params = {};
  std::vector<uint32_t> masked_ids = {};
  std::vector<uint32_t> allowed_bits = {};
  bool wants_logits = false;

  HeadRow head_row() const {
    return {.row = 0,
            .draw = Draw{token_ids, num_prompt_tokens, params, masked_ids, allowed_bits},
            .wants_logits = wants_logits};
  }
  std::optional<uint32_t> expected(Sampler& sampler) const {
    if (!all_finite(logits)) return std::nullopt;
    return sampler.sample(logits, token_ids, num_prompt_tokens, params, masked_ids, allowed_bits);
  }
};

class RandomCases {
 public:
  RandomCases(uint64_t seed, uint32_t vocab_size) : random_(seed), vocab_size_(vocab_size) {}

  Case next() {
    Case made;
    made.logits = logits();
    made.token_ids = ids(1 + below(one_of({3, 60, 60, 700})));
    made.num_prompt_tokens = static_cast<uint32_t>(1 + below(made.token_ids.size()));
    // One id is never masked and always allowed.
    const auto spared = static_cast<uint32_t>(below(vocab_size_));
    std::vector<uint32_t> banned = ids(one_of({0, 0, 1, 30, 3 * vocab_size_}));
    if (one_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 1}) == 1) {  // all ids
      banned.resize(vocab_size_);
      std::iota(banned.begin(), banned.end(), 0u);
    }
    made.masked_ids = ids(one_of({0, 0, 3}));
    std::erase(banned, spared);
    std::erase(made.masked_ids, spared);
    std::vector<uint32_t> allowed = ids(one_of({0, 0, 0, 1, 5, 600}));
    if (!allowed.empty()) allowed.push_back(spared);
    made.allowed_bits = bits(one_of({0, 0, 0, 0, 1, 40, vocab_size_ / 4, 3 * vocab_size_}), spared);
    std::vector<LogitBias> biases(one_of({0, 0, 1, 30}));
    for (LogitBias& bias : biases)
      bias = {static_cast<uint32_t>(below(vocab_size_)), of({-100, -1, 0.3, 5, 100})};
    made.params = {.temperature = of({0, 9e-7, 1e-6, 0.01, 0.3, 0.8, 0.8, 1, 1, 1.7, 100}),
                   .top_k = static_cast<uint32_t>(
                       one_of({0, 0, 1, 2, 40, 40, 999, vocab_size_ / 2, vocab_size_ - 1, 5'000'000})),
                   .top_p = of({0, 0.5, 0.9, 0.95, 0.999, 1, 1, 1, 1}),
                   .min_p = of({0, 0, 0.01, 0.3, 1}),
                   .repetition_penalty = of({1e-30, 0.5, 1, 1, 1, 1.3, 100}),
                   .presence_penalty = of({-2, 0, 0, 0.7}),
                   .frequency_penalty = of({-0.1, 0, 0, 2}),
                   .logit_bias = std::move(biases),
                   .allowed_ids = std::move(allowed),
                   .banned_ids = std::move(banned),
                   .seed = random_()};
    made.wants_logits = below(2) == 0;
    return made;
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }
  uint64_t one_of(std::vector<uint64_t> values) { return values[below(values.size())]; }
  float of(std::vector<double> values) { return static_cast<float>(values[below(values.size())]); }
  std::vector<uint32_t> ids(size_t count) {
    std::vector<uint32_t> made(count);
    for (uint32_t& id : made) id = static_cast<uint32_t>(below(vocab_size_));
    return made;
  }
  // The bits of `count` random ids and of `spared`; empty if count is 0.
  std::vector<uint32_t> bits(size_t count, uint32_t spared) {
    if (count == 0) return {};
    std::vector<uint32_t> made(num_id_words(vocab_size_));
    // The bits after the last id must not be read.
    made.back() = vocab_size_ % 32 == 0 ? 0 : ~uint32_t{0} << vocab_size_ % 32;
    for (const uint32_t id : ids(count)) set_id(made, id, true);
    set_id(made, spared, true);
    return made;
  }
  std::vector<float> logits() {
    std::vector<float> made(vocab_size_);
    std::normal_distribution<float> normal(of({-1000, 0, 0, 0, 5}), of({0, 1e-30, 0.1, 2, 2, 8, 1e4}));
    for (float& logit : made) logit = normal(random_);
    for (uint64_t i = one_of({0, 0, 3, 50}); i > 0; --i)
      made[below(vocab_size_)] = 18.0f - 0.3f * static_cast<float>(i);
    // Ties, some of them at the edge of what top_k and top_p keep, and zeros of both signs.
    if (const float steps = of({0, 0, 1, 4}); steps > 0)
      for (float& logit : made) logit = std::round(logit * steps) / steps;
    if (below(10) == 0) std::ranges::sort(made);
    if (below(8) == 0) {
      const float largest = std::numeric_limits<float>::max();
      for (uint64_t i = 1 + below(5); i > 0; --i)
        made[below(vocab_size_)] = of({largest, -largest, 1e30, 3e24, -1e20, 1e-40});
    }
    if (below(10) == 0) made[below(vocab_size_)] = of({kNan, kInfinity, -kInfinity});
    return made;
  }

  std::mt19937_64 random_;
  uint32_t vocab_size_;
};

std::unique_ptr<ThreadPool> threads(uint32_t count) {
  return std::move(*ThreadPool::create(count));
}

// The results of DrawnRows for all cases together. The draw must not change the logits.
std::vector<std::optional<uint32_t>> drawn_from(DrawnRows& rows, const std::vector<Case>& cases) {
  std::vector<HeadRow> head_rows;
  for (const Case& each : cases) head_rows.push_back(each.head_row());
  auto to = rows.start(head_rows).begin();
  for (const Case& each : cases) to = std::ranges::copy(each.logits, to).out;
  rows.draw();
  for (uint32_t i = 0; i < cases.size(); ++i)
    if (cases[i].wants_logits) CHECK(test::same_bits(rows.row(i), cases[i].logits));
  return {rows.drawn().begin(), rows.drawn().end()};
}

void check_random_cases(uint32_t vocab_size, uint32_t num_cases) {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  CAPTURE(vocab_size);
  Sampler sampler(vocab_size);
  const auto pools = {threads(1), threads(2), threads(5)};
  struct Drawer {
    std::string name;
    DrawnRows rows;
  };
  constexpr uint32_t kMaxRows = 20;  // with so many, each thread draws whole rows, for any number of threads
  std::vector<Drawer> drawers;
  for (const Kernels* table : test::kernel_tables())
    for (const auto& pool : pools)
      drawers.push_back({std::string(table->name) + ", threads: " + std::to_string(pool->num_threads()),
                         DrawnRows(table->draw, *pool, kMaxRows, vocab_size)});
  RandomCases random(seed, vocab_size);
  for (uint32_t num_done = 0; num_done < num_cases;) {
    std::vector<Case> cases(num_done % 3 == 0 ? kMaxRows : 1 + num_done % 4);
    std::vector<std::optional<uint32_t>> expected;
    for (Case& each : cases) {
      each = random.next();
      expected.push_back(each.expected(sampler));
    }
    for (Drawer& drawer : drawers) {
      CAPTURE(drawer.name);
      CAPTURE(num_done);
      const auto drawn = drawn_from(drawer.rows, cases);
      for (uint32_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        CHECK(drawn[i] == expected[i]);
      }
    }
    num_done += static_cast<uint32_t>(cases.size());
  }
}

}  // namespace

TEST_CASE("drawn rows: each kernel table, with any number of threads, samples what Sampler does") {
  for (const uint32_t vocab_size : {1u, 2u, 31u, 255u, 256u, 257u, 1000u})
    check_random_cases(vocab_size, 600);
}

TEST_CASE("drawn rows: the same over vocabularies of many spans and ranges") {
  check_random_cases(8193, 300);
  check_random_cases(49152, 120);
}

TEST_CASE("drawn rows: the same over a vocabulary of 262,144 ids") {
  check_random_cases(262144, 24);
}

TEST_CASE("drawn rows: top_p at the probability of the most likely token samples what Sampler does") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-2.0f, -0.1f);
  Sampler sampler(2);
  const auto pool = threads(1);
  for (const Kernels* table : test::kernel_tables()) {
    CAPTURE(table->name);
    DrawnRows rows(table->draw, *pool, 1, 2);
    uint32_t num_seconds = 0;
    for (int i = 0; i < 1000; ++i) {
      const float logit = uniform(random);
      const double weight = 0x1p39;
      const auto p = static_cast<float>(weight / (weight + static_cast<double>(exp_weight(logit))));
      for (const float top_p : {std::nextafter(p, 0.0f), p, std::nextafter(p, 1.0f)}) {
        const Case made{.logits = {0.0f, logit},
                        .token_ids = {0},
                        .num_prompt_tokens = 1,
                        .params = {.top_p = top_p, .seed = random()}};
        const auto expected = made.expected(sampler);
        CHECK(drawn_from(rows, {made})[0] == expected);
        num_seconds += expected == 1u;
      }
    }
    CHECK(num_seconds > 100);
  }
}

TEST_CASE("drawn rows: a row that is not sampled has no token and keeps its logits") {
  const auto pool = threads(2);
  DrawnRows rows(kPortableKernels.draw, *pool, 2, 3);
  const SamplingParams params{.temperature = 0.0f};
  const std::vector<uint32_t> token_ids = {0};
  const std::vector<HeadRow> head_rows = {{.row = 0, .wants_logits = true},
                                          {.row = 1, .draw = Draw{token_ids, 1, params, {}}}};
  std::ranges::copy(std::vector<float>{1, 2, 3, 5, 7, 6}, rows.start(head_rows).begin());
  rows.draw();
  CHECK(rows.drawn()[0] == std::nullopt);
  CHECK(rows.drawn()[1] == 1u);
  CHECK(test::same_bits(rows.row(0), std::vector<float>{1, 2, 3}));
}

}  // namespace runnel
