#include "cpu-runner/sampling/row_drawer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/backend/numerics.h"
#include "runner/check.h"
#include "runner/sampling/exp_sum.h"
#include "runner/sampling/gumbel.h"

namespace runnel {
namespace {

uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

// exp_weight gives 0 for logits that are this far below the most likely.
constexpr double kWeightlessLogit = 28.0;

// What top_p needs of `count` candidates, if the sum of their weights lies between least and most.
struct Share {
  Share(double p, uint64_t least, uint64_t most, uint64_t count)
      : least_needed(needed(p, least)),
        most_needed(needed(p, most)),
        least_negligible(least < most_needed ? 0 : (least - most_needed) / count),
        most_negligible((most - least_needed) / count) {}

  static uint64_t needed(double p, uint64_t total) {
    return std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(p * static_cast<double>(total))));
  }

  // The sum that the weights of the kept candidates must reach.
  uint64_t least_needed;
  uint64_t most_needed;
  // Candidates of at most this weight have together at most the weight of the rest, so none is needed.
  uint64_t least_negligible;
  uint64_t most_negligible;
};

void raise(std::atomic<double>& value, double to) {
  double now = value.load(std::memory_order_relaxed);
  while (now < to && !value.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

RowDrawer::RowDrawer(const DrawKernels& kernels, uint32_t vocab_size)
    : kernels_(kernels),
      vocab_size_(vocab_size),
      num_spans_(divide_up(vocab_size, kSpanIds)),
      num_ranges_(divide_up(vocab_size, kRangeIds)),
      altered_(vocab_size),
      maxima_(num_spans_),
      found_ids_(std::make_unique_for_overwrite<uint32_t[]>(vocab_size)),
      of_ranges_(num_ranges_),
      sums_(num_ranges_),
      leaders_(num_ranges_) {}

std::optional<uint32_t> RowDrawer::draw(std::span<float> logits, const Draw& draw, ThreadPool* threads) {
  CHECK(logits.size() == vocab_size_);
  logits_ = logits;
  threads_ = threads;
  has_row_ = true;
  is_collected_ = false;
  last_kept_ = kLastCandidate;
  if (!scan()) return std::nullopt;
  const bool is_greedy = draw.params.temperature < kGreedyTemperature;
  temperature_ = is_greedy ? 1.0 : static_cast<double>(draw.params.temperature);
  take_altered(draw);
  most_likely_ = most_likely();
  bounds_ = DrawBounds(temperature_, most_likely_.logit);
  const uint32_t id = is_greedy ? most_likely_.id : pick(draw);
  altered_.put_back(logits);
  return id;
}

template <typename Fn>
void RowDrawer::for_each_range(const Fn& fn) {
  const auto of_range = [&](uint32_t range) {
    constexpr uint32_t kRangeSpans = kRangeIds / kSpanIds;
    fn(range, range * kRangeSpans, std::min((range + 1) * kRangeSpans, num_spans_));
  };
  const uint32_t num_ranges = has_row_ ? num_ranges_ : 0;
  if (threads_ != nullptr) return threads_->parallel_for(num_ranges, of_range);
  for (uint32_t range = 0; range < num_ranges; ++range) of_range(range);
}

std::span<const float> RowDrawer::span(uint32_t index) const {
  const uint32_t first_id = index * kSpanIds;
  return logits_.subspan(first_id, std::min(kSpanIds, vocab_size_ - first_id));
}

bool RowDrawer::scan() {
  std::atomic<bool> is_finite = true;
  for_each_range([&](uint32_t, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      const std::span<const float> of_span = span(i);
      const DrawKernels::Scan found = kernels_.scan(of_span.data(), static_cast<uint32_t>(of_span.size()));
      maxima_[i] = found.max;
      if (!found.is_finite) is_finite.store(false, std::memory_order_relaxed);
    }
  });
  return is_finite;
}

void RowDrawer::take_altered(const Draw& draw) {
  altered_.take(logits_, draw, temperature_);
  has_row_ = altered_.num_left() > 0;
  if (!has_row_) return;
  // taken() has no order, but ids of a span that many are taken from lie together. One scan for them is
  // enough.
  uint32_t last_scanned = num_spans_;
  for (const auto& [id, logit] : altered_.taken()) {
    const uint32_t i = id / kSpanIds;
    if (i == last_scanned || logit < maxima_[i]) continue;
    const std::span<const float> of_span = span(i);
    maxima_[i] = kernels_.scan(of_span.data(), static_cast<uint32_t>(of_span.size())).max;
    last_scanned = i;
  }
}

Candidate RowDrawer::most_likely() const {
  Candidate first = kLastCandidate;
  for (const Candidate& candidate : altered_.candidates())
    if (precedes(candidate, first)) first = candidate;
  if (has_row_) {
    const auto max = std::ranges::max_element(maxima_);  // the first of equals
    const auto i = static_cast<uint32_t>(max - maxima_.begin());
    const std::span<const float> of_span = span(i);
    const auto place = std::ranges::find(of_span, *max);
    const Candidate of_row = {tempered(*max), i * kSpanIds + static_cast<uint32_t>(place - of_span.begin())};
    if (precedes(of_row, first)) first = of_row;
  }
  CHECK(first.logit != kLastCandidate.logit);
  return first;
}

uint32_t RowDrawer::num_candidates() const {
  return altered_.num_left() + static_cast<uint32_t>(altered_.candidates().size());
}

uint32_t RowDrawer::pick(const Draw& draw) {
  const SamplingParams& params = draw.params;
  if (params.top_k > 0 && params.top_k < num_candidates()) keep_top_k(params.top_k);
  if (params.top_p < 1.0f) keep_top_p(params.top_p);
  if (params.min_p > 0.0f) keep_min_p(params.min_p);
  return draw_kept({params.seed, static_cast<uint32_t>(draw.token_ids.size())});
}

void RowDrawer::keep_top_k(uint32_t k) {
  collect(k <= altered_.num_left() ? least_of_top_k(k) : kLowestLogit);
  CHECK(k <= candidates_.size());
  std::ranges::nth_element(candidates_, candidates_.begin() + (k - 1),
                           [](const Candidate& a, const Candidate& b) { return precedes(a, b); });
  candidates_.resize(k);
  is_collected_ = true;
  last_kept_ = candidates_.back();
}

float RowDrawer::least_of_top_k(uint32_t k) {
  if (k <= num_spans_ / 2) {
    // The k-th largest of the maxima of the spans: at least k spans have a logit that reaches it.
    sorted_maxima_ = maxima_;
    std::ranges::nth_element(sorted_maxima_, sorted_maxima_.begin() + (k - 1), std::ranges::greater());
    return std::max(sorted_maxima_[k - 1], kLowestLogit);
  }
  // Lowers the bound in growing steps, then halves the interval. A bound that is too low only costs time.
  const auto [least_max, most] = std::ranges::minmax(maxima_);
  float too_high = most;
  float enough = std::max(least_max, kLowestLogit);
  while (count_at_least(enough) < k) {
    too_high = enough;
    const double step = std::max({2.0 * (double{most} - enough), 1e-3 * std::abs(most), 1.0});
    enough = static_cast<float>(std::max(most - step, double{kLowestLogit}));
  }
  constexpr int kMaxHalves = 12;
  for (int i = 0; i < kMaxHalves; ++i) {
    const float middle = enough / 2 + too_high / 2;
    const uint32_t count = count_at_least(middle);
    if (count < k) {
      too_high = middle;
    } else {
      enough = middle;
      if (count - k <= k / 4) break;
    }
  }
  return enough;
}

uint32_t RowDrawer::count_at_least(float least) {
  for_each_range([&](uint32_t range, uint32_t begin, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; ++i) {
      if (maxima_[i] < least) continue;
      const std::span<const float> of_span = span(i);
      count += kernels_.count_at_least(of_span.data(), static_cast<uint32_t>(of_span.size()), least);
    }
    of_ranges_[range] = count;
  });
  uint32_t count = 0;
  for (const uint64_t of_range : of_ranges_) count += static_cast<uint32_t>(of_range);
  return count;
}

void RowDrawer::collect(float least) {
  for_each_range([&](uint32_t range, uint32_t begin, uint32_t end) {
    uint32_t* const found = found_ids_.get() + size_t{range} * kRangeIds;
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; ++i) {
      if (maxima_[i] < least) continue;
      const std::span<const float> of_span = span(i);
      const uint32_t more =
          kernels_.at_least(of_span.data(), static_cast<uint32_t>(of_span.size()), least, found + count);
      for (uint32_t j = 0; j < more; ++j) found[count++] += i * kSpanIds;
    }
    of_ranges_[range] = count;
  });
  candidates_.assign(altered_.candidates().begin(), altered_.candidates().end());
  if (!has_row_) return;
  for (uint32_t range = 0; range < num_ranges_; ++range) {
    const uint32_t* const found = found_ids_.get() + size_t{range} * kRangeIds;
    for (uint32_t j = 0; j < of_ranges_[range]; ++j)
      candidates_.push_back({tempered(logits_[found[j]]), found[j]});
  }
}

void RowDrawer::keep_top_p(double p) {
  const uint64_t count = is_collected_ ? candidates_.size() : num_candidates();
  Total total;
  if (is_collected_) {
    total.least = total.most = weigh(candidates_, weights_);
  } else {
    total = weigh_all_roughly();
    const uint64_t negligible = Share(p, total.least, total.most, count).least_negligible;
    const double lightest = log_f64(static_cast<double>(negligible + 1) * 0x1p-39);
    collect(bounds_.floor_of_computed(most_likely_.logit + lightest));
    weigh(candidates_, weights_);
  }
  if (keep_share(p, total, count)) return;
  total.least = total.most = weigh_all();
  CHECK(keep_share(p, total, count));
}

bool RowDrawer::keep_share(double p, const Total& total, uint64_t count) {
  const Share share(p, total.least, total.most, count);
  weighted_.clear();
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (weights_[i] > share.least_negligible) weighted_.push_back({candidates_[i], weights_[i]});
  const LastNeeded last = last_needed(weighted_, share.least_needed);
  if (last.reached < share.most_needed) return false;
  // A candidate of such a weight may or may not be counted, so it must not be among the kept ones.
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (weights_[i] > share.least_negligible && weights_[i] <= share.most_negligible &&
        !precedes(last.candidate, candidates_[i])) {
      return false;
    }
  }
  last_kept_ = last.candidate;
  return true;
}

RowDrawer::Total RowDrawer::weigh_all_roughly() {
  // Above this the rounding of keys is no longer negligible.
  constexpr double kLargestLogit = 0x1p20;
  if (!has_row_ || std::abs(most_likely_.logit) > kLargestLogit) {
    const uint64_t exact = weigh_all();
    return {exact, exact};
  }
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  const double scale = kLog2E / temperature_;
  const double offset = -most_likely_.logit * kLog2E;
  const float least = bounds_.floor_of_computed(most_likely_.logit - kWeightlessLogit);
  for_each_range([&](uint32_t range, uint32_t begin, uint32_t end) {
    double sum = 0.0;
    for (uint32_t i = begin; i < end; ++i) {
      if (maxima_[i] < least) continue;
      const std::span<const float> of_span = span(i);
      sum +=
          kernels_.weigh_roughly(of_span.data(), static_cast<uint32_t>(of_span.size()), least, scale, offset);
    }
    sums_[range] = sum;
  });
  double sum = 0.0;
  for (const double of_range : sums_) sum += of_range;
  const double of_row = sum * 0x1p39;
  // Each exact weight is lower by the fraction that is cut off; a weight below 1 is 0. This sum cuts off
  // nothing.
  const double lacking = altered_.num_left() + 1.0;
  const uint64_t of_altered = weigh(altered_.candidates(), altered_weights_);
  return {of_altered + static_cast<uint64_t>(std::max(0.0, of_row * (1.0 - kRoughness) - lacking)),
          of_altered + static_cast<uint64_t>(of_row * (1.0 + kRoughness) + 1.0)};
}

uint64_t RowDrawer::weigh_all() {
  uint64_t total = weigh(altered_.candidates(), altered_weights_);
  const float least = bounds_.floor_of_computed(most_likely_.logit - kWeightlessLogit);
  for_each_range([&](uint32_t range, uint32_t begin, uint32_t end) {
    uint64_t sum = 0;
    for (uint32_t i = begin; i < end; ++i) {
      if (maxima_[i] < least) continue;
      const std::span<const float> of_span = span(i);
      sum += kernels_.weigh(of_span.data(), static_cast<uint32_t>(of_span.size()), least, temperature_,
                            most_likely_.logit);
    }
    of_ranges_[range] = sum;
  });
  if (!has_row_) return total;
  for (const uint64_t of_range : of_ranges_) total += of_range;
  return total;
}

uint64_t RowDrawer::weigh(std::span<const Candidate> candidates, std::vector<uint64_t>& weights) const {
  weights.resize(candidates.size());
  uint64_t total = 0;
  double logits[kSpanIds];
  for (size_t first = 0; first < candidates.size(); first += kSpanIds) {
    const size_t n = std::min<size_t>(kSpanIds, candidates.size() - first);
    for (size_t i = 0; i < n; ++i) logits[i] = candidates[first + i].logit;
    kernels_.weights(logits, static_cast<uint32_t>(n), most_likely_.logit, weights.data() + first);
    for (size_t i = 0; i < n; ++i) total += weights[first + i];
  }
  return total;
}

void RowDrawer::keep_min_p(double p) {
  const Candidate last = {most_likely_.logit + log_f64(p), kLastCandidate.id};
  if (precedes(last, last_kept_)) last_kept_ = last;
}

uint32_t RowDrawer::draw_kept(const NoiseKey& key) {
  // The most likely candidate goes first: few others can beat it, and the bounds save their logarithms.
  Candidate leader = most_likely_;
  leader.logit += gumbel(gumbel_bits(key.seed, key.position, leader.id / 4)[leader.id % 4]);
  double first_key = leader.logit;
  const Candidate of_altered = lead_of_altered(key, first_key);
  if (precedes(of_altered, leader)) leader = of_altered;
  if (!has_row_) return leader.id;
  std::atomic<double> leading = first_key;
  for_each_range([&](uint32_t range, uint32_t begin, uint32_t end) {
    leaders_[range] = lead_of_spans(key, begin, end, leading);
  });
  for (const Candidate& of_range : leaders_)
    if (precedes(of_range, leader)) leader = of_range;
  return leader.id;
}

Candidate RowDrawer::lead_of_altered(const NoiseKey& key, double& leading) const {
  Candidate leader = kLastCandidate;
  for (const Candidate& candidate : altered_.candidates()) {
    if (candidate.logit + kMaxGumbel < leading || precedes(last_kept_, candidate)) continue;
    const uint32_t bits = gumbel_bits(key.seed, key.position, candidate.id / 4)[candidate.id % 4];
    if (candidate.logit + gumbel_bound(bits) < leading) continue;
    const Candidate drawn = {candidate.logit + gumbel(bits), candidate.id};
    if (precedes(drawn, leader)) leader = drawn;
    leading = std::max(leading, drawn.logit);
  }
  return leader;
}

Candidate RowDrawer::lead_of_spans(const NoiseKey& key, uint32_t begin, uint32_t end,
                                   std::atomic<double>& leading) const {
  const float least_kept = bounds_.floor_of(last_kept_.logit);
  uint32_t words[kSpanIds] = {};
  uint32_t places[kSpanIds];
  double gumbels[kSpanIds];
  Candidate leader = kLastCandidate;
  Contest contest{};
  double rival = std::numeric_limits<double>::quiet_NaN();  // the key that contest was made for
  for (uint32_t i = begin; i < end; ++i) {
    if (const double now = leading.load(std::memory_order_relaxed); now != rival) {
      rival = now;
      contest = bounds_.contest_with(rival);
      contest.least = std::max(contest.least, least_kept);
    }
    if (maxima_[i] < contest.least) continue;
    const std::span<const float> of_span = span(i);
    const auto n = static_cast<uint32_t>(of_span.size());
    kernels_.noise(of_span.data(), n, contest.least, key, i * kSpanIds, words);
    const uint32_t count = kernels_.contenders(of_span.data(), words, n, contest, places);
    if (count == 0) continue;
    uint32_t their_words[kSpanIds];
    for (uint32_t j = 0; j < count; ++j) their_words[j] = words[places[j]];
    kernels_.gumbels(their_words, count, gumbels);
    for (uint32_t j = 0; j < count; ++j) {
      Candidate drawn = {tempered(of_span[places[j]]), i * kSpanIds + places[j]};
      if (precedes(last_kept_, drawn)) continue;
      drawn.logit += gumbels[j];
      if (precedes(drawn, leader)) leader = drawn;
    }
    if (leader.logit > rival) raise(leading, leader.logit);
  }
  return leader;
}

}  // namespace runnel
