// The inner loops of draws (draw_row.h). The rule of a draw is runner/sampling/sampler.h; these look through
// a vocabulary for the few ids that matter to it, and compute in double what the rule computes in double,
// with the operations of runner/numerics.h in their order. All tables give the same bits.
//
// In a row of logits an id that is no candidate is -infinity.
#pragma once

#include <cstdint>

namespace runnel {

// Ids that a call looks at, at most; each row is cut into such spans from id 0.
inline constexpr uint32_t kSpanIds = 256;

// The noise of a row's ids; see runner/sampling/gumbel.h.
struct NoiseKey {
  uint64_t seed;
  uint32_t position;
};

// What a logit and its random word must be to win against a key already reached; see contenders.
struct Contest {
  float least;  // a logit below cannot win whatever its word
  float scale;  // from here on the units are 2^-23 of a binary order of magnitude
  float offset;
};

// The error of a rough sum is at most this share of it, if exponents err by 2^-30 at most. A power of 2 is a
// series whose first term left out, of degree 8, is below 2^-27 of it.
inline constexpr double kRoughness = 0x1p-26;

struct DrawKernels {
  // The largest of n logits, and whether all are finite; n is at least 1.
  struct Scan {
    float max;
    bool is_finite;
  };
  Scan (*scan)(const float* logits, uint32_t n);
  // Writes the places of the logits that are at least so much, in order, and returns how many they are.
  // places has room for n.
  uint32_t (*at_least)(const float* logits, uint32_t n, float least, uint32_t* places);
  // How many they are.
  uint32_t (*count_at_least)(const float* logits, uint32_t n, float least);
  // Sum of exp_weight(logit / temperature - max) over the logits that are at least `least`, which leaves out
  // none that has a weight.
  uint64_t (*weigh)(const float* logits, uint32_t n, float least, double temperature, double max);
  // Sum of 2^(logit * scale + offset), nearly, over the logits that are at least `least` and perhaps some
  // others. Exponents are at most 0 but for their rounding.
  double (*weigh_roughly)(const float* logits, uint32_t n, float least, double scale, double offset);
  // weights[i] = exp_weight(logits[i] - max).
  void (*weights)(const double* logits, uint32_t n, double max, uint64_t* weights);
  // The random words of ids first_id, which is a multiple of 4, to first_id + n - 1, n being at most
  // kSpanIds: only where a logit is at least `least`, the other words of words (kSpanIds) may be left as they
  // are.
  void (*noise)(const float* logits, uint32_t n, float least, const NoiseKey& key, uint32_t first_id,
                uint32_t* words);
  // Writes the places, below n, of all logits that can win, and of few others: those that are at least
  // contest.least and for which log2(2^32 - 1 - word), rounded down in a way that costs nothing, is at most
  // logit * scale + offset. A word whose first eight bits alone would say less than 1 is let through.
  uint32_t (*contenders)(const float* logits, const uint32_t* words, uint32_t n, const Contest& contest,
                         uint32_t* places);
  // gumbels[i] = gumbel(words[i]).
  void (*gumbels)(const uint32_t* words, uint32_t n, double* gumbels);
};

}  // namespace runnel
