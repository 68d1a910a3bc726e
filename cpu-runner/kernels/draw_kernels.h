// The inner loops of draws (row_drawer.h). runner/sampling/sampler.h defines what is drawn. These loops look
// through a vocabulary for the few ids that matter to a draw. What Sampler computes in double, they compute
// in double, with the operations of runner/backend/numerics.h in their order. All tables give the same bits.
//
// In a row of logits, an id that is no candidate has -infinity.
#pragma once

#include <cstdint>

namespace runnel {

// Limit of the ids in one call. Each row is cut into spans of this many ids from id 0 on.
inline constexpr uint32_t kSpanIds = 256;

// The noise of a row's ids; see runner/sampling/gumbel.h.
struct NoiseKey {
  uint64_t seed;
  uint32_t position;
};

// What a logit and its random word must be to reach a key; see contenders.
struct Contest {
  float least;  // a lower logit cannot win, whatever its word is
  float scale;  // from here on the unit is 2^-23 of a binary order of magnitude
  float offset;
};

// The relative error of a rough sum is at most this, if exponents have errors of at most 2^-30. A power of 2
// is computed by a series, in which the first term left out, of degree 8, is below 2^-27 of it.
inline constexpr double kRoughness = 0x1p-26;

struct DrawKernels {
  // The largest of n logits, and whether all are finite; n is at least 1.
  struct Scan {
    float max;
    bool is_finite;
  };
  Scan (*scan)(const float* logits, uint32_t n);
  // Writes the places of the logits that are at least `least`, in order, and returns their number. places has
  // room for n.
  uint32_t (*at_least)(const float* logits, uint32_t n, float least, uint32_t* places);
  // The number of logits that are at least `least`.
  uint32_t (*count_at_least)(const float* logits, uint32_t n, float least);
  // Sum of exp_weight(logit / temperature - max) over the logits that are at least `least`. No logit below
  // `least` has a weight.
  uint64_t (*weigh)(const float* logits, uint32_t n, float least, double temperature, double max);
  // Approximate sum of 2^(logit * scale + offset) over the logits that are at least `least` and perhaps some
  // others. Exponents are at most 0, apart from their rounding.
  double (*weigh_roughly)(const float* logits, uint32_t n, float least, double scale, double offset);
  // weights[i] = exp_weight(logits[i] - max).
  void (*weights)(const double* logits, uint32_t n, double max, uint64_t* weights);
  // Writes the random words of the ids first_id to first_id + n - 1. first_id is a multiple of 4 and n is at
  // most kSpanIds. Words of logits below `least` may be left out. words has room for kSpanIds.
  void (*noise)(const float* logits, uint32_t n, float least, const NoiseKey& key, uint32_t first_id,
                uint32_t* words);
  // Writes the places, below n, of all logits that can win, and of few others: those that are at least
  // contest.least and for which log2(2^32 - 1 - word), rounded down in a way that costs nothing, is at most
  // logit * scale + offset. A word whose first eight bits alone would say less than 1 is let through. Returns
  // their number.
  uint32_t (*contenders)(const float* logits, const uint32_t* words, uint32_t n, const Contest& contest,
                         uint32_t* places);
  // gumbels[i] = gumbel(words[i]).
  void (*gumbels)(const uint32_t* words, uint32_t n, double* gumbels);
};

}  // namespace runnel
