// A draw from one row of logits: the id that Sampler draws (runner/sampling/sampler.h), sooner. The row stays
// floats. What masks, biases and penalties change is few, and set apart (altered_logits.h); loops over the
// rest look for what may matter with bounds that cannot miss it, and only that is computed in double, as
// Sampler computes it. What top_k, top_p and min_p keep is, whatever they are, all down to a last candidate.
//
// The loops run over ranges of ids, by all threads or by this one; which does not change what is drawn.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpu-runner/altered_logits.h"
#include "cpu-runner/draw_bounds.h"
#include "cpu-runner/draw_candidates.h"
#include "cpu-runner/kernels/draw_kernels.h"
#include "cpu-runner/thread_pool.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

// Ids that a thread takes at a time.
inline constexpr uint32_t kRangeIds = 8192;
static_assert(kRangeIds % kSpanIds == 0);

class RowDrawer {
 public:
  RowDrawer(const DrawKernels& kernels, uint32_t vocab_size);

  // None where logits (vocab_size) are not all finite; they are changed meanwhile. threads: null for this one
  // alone.
  std::optional<uint32_t> draw(std::span<float> logits, const Draw& draw, ThreadPool* threads);

 private:
  // Calls fn(range, first span, end span) for all ranges of the row; for none where it has no candidates.
  template <typename Fn>
  void for_each_range(const Fn& fn);
  std::span<const float> span(uint32_t index) const;
  // A logit of the row as it is compared and drawn with.
  double tempered(float logit) const { return static_cast<double>(logit) / temperature_; }

  bool scan();
  void take_altered(const Draw& draw);
  Candidate most_likely() const;
  uint32_t num_candidates() const;
  uint32_t pick(const Draw& draw);

  // What lies above the last candidate that is kept.
  void keep_top_k(uint32_t k);
  void keep_top_p(double p);
  void keep_min_p(double p);
  // A logit that at least k of the row have, and few more; k is at most as many as there are.
  float least_of_top_k(uint32_t k);
  uint32_t count_at_least(float least);
  // Makes candidates_ those of the row from `least` on, and all altered ones.
  void collect(float least);
  // What all candidates weigh together, somewhere between two numbers.
  struct Total {
    uint64_t least;
    uint64_t most;
  };
  Total weigh_all_roughly();
  uint64_t weigh_all();
  // Makes weights those of candidates, and returns their sum.
  uint64_t weigh(std::span<const Candidate> candidates, std::vector<uint64_t>& weights) const;
  // Of `count` candidates, those that are needed are among candidates_. Says whether total was exact enough
  // to tell the last one.
  bool keep_share(double p, const Total& total, uint64_t count);

  uint32_t draw_kept(const NoiseKey& key);
  // Of altered candidates, and of the row's from span begin to end - 1, the one with the largest sum of logit
  // and noise, if that is no less than leading, which it raises.
  Candidate lead_of_altered(const NoiseKey& key, double& leading) const;
  Candidate lead_of_spans(const NoiseKey& key, uint32_t begin, uint32_t end,
                          std::atomic<double>& leading) const;

  const DrawKernels& kernels_;
  const uint32_t vocab_size_;
  const uint32_t num_spans_;
  const uint32_t num_ranges_;

  // Of the draw in hand.
  std::span<float> logits_;
  ThreadPool* threads_ = nullptr;
  double temperature_ = 1.0;
  bool has_row_ = true;  // that is, candidates in it
  AlteredLogits altered_;
  std::vector<float> maxima_;  // of each span
  Candidate most_likely_ = kLastCandidate;
  DrawBounds bounds_{1.0, 0.0};
  Candidate last_kept_ = kLastCandidate;
  std::vector<Candidate> candidates_;
  bool is_collected_ = false;      // candidates_ has all that are kept
  std::vector<uint64_t> weights_;  // of candidates_

  // To work in.
  std::unique_ptr<uint32_t[]> found_ids_;  // of each range, from its first id on
  std::vector<uint64_t> of_ranges_;
  std::vector<double> sums_;        // of each range
  std::vector<Candidate> leaders_;  // of each range
  std::vector<float> sorted_maxima_;
  std::vector<uint64_t> altered_weights_;
  std::vector<WeightedCandidate> weighted_;
};

}  // namespace runnel
