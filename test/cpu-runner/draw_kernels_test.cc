// The loops of draws: with every table they have the bits of the functions of runner/sampling and
// runner/backend/numerics.h, and their bounds exclude no id that could win.
#include "cpu-runner/kernels/draw_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "cpu-runner/sampling/draw_bounds.h"
#include "runner/sampling/exp_sum.h"
#include "runner/sampling/gumbel.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr float kNoCandidate = -std::numeric_limits<float>::infinity();

// Random logits, of which some are no candidates.
std::vector<float> some_logits(std::mt19937_64& random, uint32_t n) {
  std::normal_distribution<float> normal(0.0f, 10.0f);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = random() % 9 == 0 ? kNoCandidate : normal(random);
  return logits;
}

// Calls check(table, random) for every table of kernels.
template <typename Fn>
void for_each_table(const Fn& check) {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const Kernels* table : test::kernel_tables()) {
    CAPTURE(table->name);
    check(table, random);
  }
}

uint32_t any_length(std::mt19937_64& random) {
  return static_cast<uint32_t>(1 + random() % kSpanIds);
}

}  // namespace

TEST_CASE("draw kernels: the maximum of a span, and whether all of it is finite") {
  for_each_table([](const Kernels* table, std::mt19937_64& random) {
    for (uint32_t n = 1; n <= kSpanIds; ++n) {
      std::vector<float> logits = some_logits(random, n);
      std::ranges::replace(logits, kNoCandidate, -3.0e38f);
      const DrawKernels::Scan finite = table->draw.scan(logits.data(), n);
      CHECK(finite.max == std::ranges::max(logits));
      CHECK(finite.is_finite);
      const float bad[] = {kNoCandidate, -kNoCandidate, std::numeric_limits<float>::quiet_NaN()};
      logits[random() % n] = bad[random() % 3];
      CHECK_FALSE(table->draw.scan(logits.data(), n).is_finite);
    }
  });
}

TEST_CASE("draw kernels: the positions at or above a logit are found") {
  for_each_table([](const Kernels* table, std::mt19937_64& random) {
    for (uint32_t n = 1; n <= kSpanIds; ++n) {
      const std::vector<float> logits = some_logits(random, n);
      const float least = n % 3 == 0 ? kLowestLogit : std::max(logits[random() % n], kLowestLogit);
      std::vector<uint32_t> expected;
      for (uint32_t i = 0; i < n; ++i)
        if (logits[i] >= least) expected.push_back(i);
      std::vector<uint32_t> places(n);
      places.resize(table->draw.at_least(logits.data(), n, least, places.data()));
      CHECK(places == expected);
      CHECK(table->draw.count_at_least(logits.data(), n, least) == expected.size());
    }
  });
}

TEST_CASE("draw kernels: weights are those of the rule") {
  for_each_table([](const Kernels* table, std::mt19937_64& random) {
    for (int i = 0; i < 2000; ++i) {
      const uint32_t n = any_length(random);
      const std::vector<float> logits = some_logits(random, n);
      const double temperature = std::array{0.01f, 0.7f, 0.8f, 1.0f, 1.3f, 100.0f}[random() % 6];
      const double max = std::max<double>(std::ranges::max(logits), -1.0) / temperature;
      std::vector<double> tempered;
      std::vector<uint64_t> expected;
      uint64_t sum = 0;
      for (const float logit : logits) {
        tempered.push_back(logit / temperature);
        expected.push_back(exp_weight(tempered.back() - max));
        sum += expected.back();
      }
      std::vector<uint64_t> weights(n);
      table->draw.weights(tempered.data(), n, max, weights.data());
      CHECK(weights == expected);
      const float least = DrawBounds(temperature, max).floor_of_computed(max - 28.0);
      CHECK(table->draw.weigh(logits.data(), n, least, temperature, max) == sum);
    }
  });
}

TEST_CASE("draw kernels: a rough sum of weights keeps its error bound") {
  for_each_table([](const Kernels* table, std::mt19937_64& random) {
    double worst = 0.0;
    for (int i = 0; i < 20'000; ++i) {
      const double temperature = std::array{0.01f, 0.7f, 0.8f, 1.0f, 1.3f, 100.0f}[random() % 6];
      // All logits are equally far below the maximum, where errors are largest, or at random distances.
      std::uniform_real_distribution<float> below(0.0f, 42.0f * std::log(2.0f));
      const float same = below(random);
      const float max = std::normal_distribution<float>(0.0f, 30.0f)(random);
      std::vector<float> logits(any_length(random));
      for (float& logit : logits)
        logit = max - static_cast<float>(temperature) * 0.999f * (i % 2 == 0 ? same : below(random));
      const float least = max - 42.0f * std::log(2.0f) * static_cast<float>(temperature);
      double sum = 0.0;
      for (const float logit : logits)
        sum += std::exp(double{logit} / temperature - double{max} / temperature);
      if (logits.size() < kSpanIds) logits.insert(logits.begin(), kNoCandidate);
      const double log2_e = 1.0 / kLn2;
      const double rough =
          table->draw.weigh_roughly(logits.data(), static_cast<uint32_t>(logits.size()), least,
                                    log2_e / temperature, -(max / temperature) * log2_e);
      worst = std::max(worst, std::abs(rough - sum) / sum);
    }
    CHECK(worst < kRoughness);
    CHECK(worst > kRoughness / 30);
    const float far_apart[] = {1e20f, -1e20f, -3e38f};
    CHECK(table->draw.weigh_roughly(far_apart, 3, kLowestLogit, 1.0, -1e20) == 1.0);
  });
}

TEST_CASE("draw kernels: the noise is that of the rule, where a logit asks for it") {
  for_each_table([](const Kernels* table, std::mt19937_64& random) {
    for (int i = 0; i < 2000; ++i) {
      const uint32_t n = any_length(random);
      const std::vector<float> logits = some_logits(random, n);
      const float least = std::array{kLowestLogit, 0.0f, 20.0f}[random() % 3];
      const NoiseKey key = {random(), static_cast<uint32_t>(random())};
      const auto first_id = static_cast<uint32_t>(random() % (1 << 24) / 4 * 4);
      std::vector<uint32_t> words(kSpanIds);
      table->draw.noise(logits.data(), n, least, key, first_id, words.data());
      std::vector<double> gumbels(n);
      table->draw.gumbels(words.data(), n, gumbels.data());
      bool is_same = true;
      for (uint32_t place = 0; place < n; ++place) {
        const uint32_t id = first_id + place;
        if (logits[place] >= least)
          is_same &= words[place] == gumbel_bits(key.seed, key.position, id / 4)[id % 4];
        is_same &= gumbels[place] == gumbel(words[place]);
      }
      CHECK(is_same);
    }
  });
}

TEST_CASE("draw kernels: the noise of extreme words is that of the rule") {
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < 1000; ++i) words.insert(words.end(), {i, ~i});
  for (uint32_t bit = 0; bit < 32; ++bit)
    for (uint32_t i = 0; i < 8; ++i) words.insert(words.end(), {(1u << bit) + i - 4, ~((1u << bit) + i - 4)});
  for (const Kernels* table : test::kernel_tables()) {
    CAPTURE(table->name);
    std::vector<double> gumbels(words.size());
    table->draw.gumbels(words.data(), static_cast<uint32_t>(words.size()), gumbels.data());
    CHECK(std::ranges::equal(gumbels, words, {}, {}, gumbel));
  }
}

TEST_CASE("draw bounds: a logit is not below the floor of its own key") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const double temperature : {1e-6f, 0.1f, 0.7f, 0.8f, 1.0f, 3.0f, 100.0f}) {
    const DrawBounds bounds(temperature, 0.0);
    uint32_t num_below = 0;
    uint32_t num_far_above = 0;
    for (int i = 0; i < 300'000; ++i) {
      const auto logit = std::bit_cast<float>(static_cast<uint32_t>(random()));
      if (!std::isfinite(logit)) continue;
      const float floor = bounds.floor_of(logit / temperature);
      if (floor > logit) ++num_below;
      if (floor < std::nextafter(logit, kLowestLogit)) ++num_far_above;
    }
    CHECK(num_below == 0);
    CHECK(num_far_above == 0);
  }
}

// The hardest key for a logit and its word is the key that they just reach.
TEST_CASE("draw kernels: every logit that reaches a key is a contender") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < 3000; ++i) words.insert(words.end(), {i, ~i, static_cast<uint32_t>(random())});
  // The bounds are tightest where 2^32 - 1 - word is near a power of 2.
  for (uint32_t bit = 0; bit < 32; ++bit)
    for (uint32_t i = 0; i < 600; ++i)
      words.push_back(~((1u << bit) + (i < 300 ? i - 8 : static_cast<uint32_t>(random() % 256))));
  for (const Kernels* table : test::kernel_tables()) {
    CAPTURE(table->name);
    for (const double temperature : {1e-6f, 1e-3f, 0.1f, 0.8f, 1.0f, 3.0f, 100.0f}) {
      CAPTURE(temperature);
      uint32_t num_lost = 0;
      for (const uint32_t word : words) {
        const float sizes[] = {1.0f, 20.0f, 20.0f, 20.0f, 1000.0f, 1e6f, 1e25f, 3e38f};
        std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
        const float logit = uniform(random) * sizes[random() % std::size(sizes)];
        const double key = logit / temperature + gumbel(word);
        // The most likely candidate is above this one, and its key with noise is not higher than `key`.
        const double most_likely = logit / temperature + (random() % 2 == 0 ? 0.0 : 20.0);
        const Contest contest = DrawBounds(temperature, most_likely).contest_with(key);
        uint32_t place;
        if (table->draw.contenders(&logit, std::vector<uint32_t>(kSpanIds, word).data(), 1, contest,
                                   &place) != 1)
          ++num_lost;
      }
      CHECK(num_lost == 0);
    }
  }
}

TEST_CASE("draw kernels: few contenders do not win") {
  for_each_table([](const Kernels* table, std::mt19937_64& random) {
    for (const double key : {4.0, 8.0, 12.0}) {
      const Contest contest = DrawBounds(0.8, 20.0 / 0.8).contest_with(20.0 / 0.8 + key);
      uint32_t num_contenders = 0;
      uint32_t num_winners = 0;
      std::vector<float> logits(kSpanIds, 20.0f);
      for (int i = 0; i < 4000; ++i) {
        std::vector<uint32_t> words(kSpanIds);
        // The words are so large that at least one in a hundred wins.
        const double range = std::exp(-key) * 100.0;
        for (uint32_t& word : words)
          word = ~static_cast<uint32_t>(std::min(range, 1.0) * static_cast<double>(random() % (1ull << 32)));
        uint32_t places[kSpanIds];
        num_contenders += table->draw.contenders(logits.data(), words.data(), kSpanIds, contest, places);
        for (const uint32_t word : words) num_winners += gumbel(word) >= key;
      }
      CHECK(num_winners > 5000);
      CHECK(num_contenders >= num_winners);
      CHECK(num_contenders < 1.15 * num_winners);
    }
  });
}

}  // namespace runnel
