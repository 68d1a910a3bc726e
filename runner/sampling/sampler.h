// Draws the next token of a sequence from its logits.
//
// The order is masks, logit bias, penalties, temperature, top_k, top_p, min_p, draw. The draw is Gumbel-max:
// the token with the largest logit + g, where g = -log(-log u), has the probabilities of the softmax. u comes
// from a counter-based generator, as a function of (seed, position of the token in the sequence, token id)
// without state: a sequence that was preempted, moved or resumed in another process draws what it would have
// drawn. All arithmetic is in double or in integers, in a fixed order, with the functions of
// runner/backend/numerics.h, so the drawn token depends on the logits and the parameters alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runner/engine/sequence.h"

namespace runnel {

// Whether no logit is NaN or infinite. A request with other logits ends with an error.
bool all_finite(std::span<const float> logits);

class Sampler {
 public:
  explicit Sampler(uint32_t vocab_size);

  // logits (vocab_size) are all finite. token_ids is the sequence so far; its length is the position of the
  // drawn token, and its first num_prompt_tokens are the prompt. masked_ids are banned for this draw, in
  // addition to those of params. If allowed_bits (see id_bits.h) is not empty, only its ids may be drawn.
  // Together they must leave something to draw.
  uint32_t sample(std::span<const float> logits, std::span<const uint32_t> token_ids,
                  uint32_t num_prompt_tokens, const SamplingParams& params,
                  std::span<const uint32_t> masked_ids = {}, std::span<const uint32_t> allowed_bits = {});

  // The ids that the last sample() could have drawn, in order; for a greedy one, all that were not masked.
  // For tests.
  std::vector<uint32_t> kept_ids() const;

 private:
  // A token that may still be drawn. Candidates stay in the order of ids.
  struct Candidate {
    double logit;
    uint32_t id;
  };
  // More likely first, ties to the lower id: the order in which candidates are kept.
  static bool precedes(const Candidate& a, const Candidate& b);

  // These need candidate id to be token id, so they come before any candidate is dropped.
  void mask(std::span<const uint32_t> ids);
  void mask_all_but(std::span<const uint32_t> ids);
  void mask_all_but_bits(std::span<const uint32_t> allowed_bits);
  void add_biases(std::span<const LogitBias> biases);
  void penalize_repetition(std::span<const uint32_t> token_ids, double penalty);
  void penalize_generated(std::span<const uint32_t> generated_ids, double presence, double frequency);
  void drop_masked();
  void keep_top_k(uint32_t k);
  void keep_top_p(double p);
  void keep_min_p(double p);
  // Drops every candidate that comes after the last one to keep.
  void keep_until(const Candidate& last);
  const Candidate& most_likely() const;
  uint32_t draw(uint64_t seed, uint32_t position) const;

  // A candidate with its share of the probability; see exp_weights.
  struct Weighted {
    Candidate candidate;
    uint64_t weight;
  };

  // Reserved once. Only candidates_ keeps its content between two calls.
  std::vector<Candidate> candidates_;
  std::vector<Candidate> scratch_;
  std::vector<Weighted> weighted_;
  std::vector<double> logits_;
  std::vector<uint64_t> weights_;
  std::vector<uint32_t> counts_;  // for each token id; zeros between two draws
};

}  // namespace runnel
