// A draw from one row of logits. It draws the same id as Sampler (runner/sampling/sampler.h), but faster. The
// row stays in floats. The few ids that masks, biases and penalties change are set apart (altered_logits.h).
// Loops over the rest look for the ids that may matter, with bounds that cannot miss one, and only these are
// computed in double, as Sampler computes them. Whatever top_k, top_p and min_p are, they keep all candidates
// down to a last one.
//
// The loops run over ranges of ids, on all threads or on the calling one. This does not change what is drawn.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpu-runner/kernels/draw_kernels.h"
#include "cpu-runner/sampling/altered_logits.h"
#include "cpu-runner/sampling/draw_bounds.h"
#include "cpu-runner/sampling/draw_candidates.h"
#include "cpu-runner/thread_pool.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

// Ids that a thread takes at a time.
inline constexpr uint32_t kRangeIds = 8192;
static_assert(kRangeIds % kSpanIds == 0);

class RowDrawer {
 public:
  RowDrawer(const DrawKernels& kernels, uint32_t vocab_size);
  // Bytes that this takes, but for the lists of a draw.
  static uint64_t bytes(uint32_t vocab_size) {
    return AlteredLogits::bytes(vocab_size) + uint64_t{vocab_size} * sizeof(uint32_t);  // found_ids_
  }

  // Returns nothing if logits (vocab_size) are not all finite. The logits change during the draw and are
  // restored. With threads == null the calling thread works alone.
  std::optional<uint32_t> draw(std::span<float> logits, const Draw& draw, ThreadPool* threads);

 private:
  // Calls fn(range, first span, end span) for all ranges of the row, or for none if the row has no
  // candidates.
  template <typename Fn>
  void for_each_range(const Fn& fn);
  std::span<const float> span(uint32_t index) const;
  // The value with which a logit of the row is compared and drawn.
  double tempered(float logit) const { return static_cast<double>(logit) / temperature_; }

  bool scan();
  void take_altered(const Draw& draw);
  Candidate most_likely() const;
  uint32_t num_candidates() const;
  uint32_t pick(const Draw& draw);

  // Each of these raises last_kept_ to the last candidate that is kept.
  void keep_top_k(uint32_t k);
  void keep_top_p(double p);
  void keep_min_p(double p);
  // A logit that at least k logits of the row reach, and few more; k is at most the number of candidates in
  // the row.
  float least_of_top_k(uint32_t k);
  uint32_t count_at_least(float least);
  // Sets candidates_ to those of the row whose logits are at least `least`, and all altered ones.
  void collect(float least);
  // The sum of the weights of all candidates, which lies between two numbers.
  struct Total {
    uint64_t least;
    uint64_t most;
  };
  Total weigh_all_roughly();
  uint64_t weigh_all();
  // Computes the weights of candidates, and returns their sum.
  uint64_t weigh(std::span<const Candidate> candidates, std::vector<uint64_t>& weights) const;
  // Keeps the share p of `count` candidates, of which all that are needed are among candidates_. Returns
  // whether total was exact enough to tell the last one.
  bool keep_share(double p, const Total& total, uint64_t count);

  uint32_t draw_kept(const NoiseKey& key);
  // The candidate with the largest key, which is the sum of logit and noise, among the altered ones, and
  // among those of the row from span begin to end - 1. Candidates that cannot reach leading may be left
  // out. Raises leading to the largest key.
  Candidate lead_of_altered(const NoiseKey& key, double& leading) const;
  Candidate lead_of_spans(const NoiseKey& key, uint32_t begin, uint32_t end,
                          std::atomic<double>& leading) const;

  const DrawKernels& kernels_;
  const uint32_t vocab_size_;
  const uint32_t num_spans_;
  const uint32_t num_ranges_;

  // State of the current draw.
  std::span<float> logits_;
  ThreadPool* threads_ = nullptr;
  double temperature_ = 1.0;
  bool has_row_ = true;  // whether the row has candidates
  AlteredLogits altered_;
  std::vector<float> maxima_;  // of each span
  Candidate most_likely_ = kLastCandidate;
  DrawBounds bounds_{1.0, 0.0};
  Candidate last_kept_ = kLastCandidate;
  std::vector<Candidate> candidates_;
  bool is_collected_ = false;      // candidates_ has all that are kept
  std::vector<uint64_t> weights_;  // of candidates_

  // Buffers that are reused by later draws.
  std::unique_ptr<uint32_t[]> found_ids_;  // for each range, from its first id on
  std::vector<uint64_t> of_ranges_;
  std::vector<double> sums_;        // of each range
  std::vector<Candidate> leaders_;  // of each range
  std::vector<float> sorted_maxima_;
  std::vector<uint64_t> altered_weights_;
  std::vector<WeightedCandidate> weighted_;
};

}  // namespace runnel
