// The candidate that is largest with its noise (Gumbel-max, docs/numerics.md), among those that a thread
// sees.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/draw_row-inl.h"
#include "cuda-runner/kernels/rank-inl.h"
#include "runner/sampling/gumbel.h"

namespace runnel {

// values[i] for i < 4. An index that the compiler does not know would put an array into memory.
template <typename Values>
__device__ auto one_of(const Values& values, uint32_t i) {
  const auto low = i % 2 == 0 ? values[0] : values[1];
  const auto high = i % 2 == 0 ? values[2] : values[3];
  return i < 2 ? low : high;
}

struct NoisyBest {
  // first: the most likely candidate of all threads. kept: the least likely one that is kept.
  __device__ NoisyBest(const DrawChunk& row, const Rank& first, Rank kept)
      : seed(row.draw.seed),
        position(row.positions[row.draw.batch_row] + 1),
        last(kept),
        least(logit_of(first.key) + gumbel(bits_of_id(first.id()))) {}

  // The random bits of four neighbouring ids.
  __device__ std::array<uint32_t, 4> bits_of_quad(uint32_t quad) const {
    return gumbel_bits(seed, position, quad);
  }
  __device__ uint32_t bits_of_id(uint32_t id) const { return one_of(bits_of_quad(id / 4), id % 4); }
  __device__ void offer(double logit, uint32_t id, uint32_t bits) {
    if (precedes(last, rank_of(logit, id)) || logit + gumbel_bound(bits) < least) return;
    const double noisy = logit + gumbel(bits);
    const Rank rank = rank_of(noisy, id);
    if (!precedes(rank, best)) return;
    best = rank;
    least = std::fmax(least, noisy);
  }
  __device__ void offer(double logit, uint32_t id) {
    if (logit + kMaxGumbel < least) return;
    offer(logit, id, bits_of_id(id));
  }

  uint64_t seed;
  uint32_t position;
  Rank last;
  // A lower bound of the value that wins. Few candidates can reach it; for the others gumbel_bound saves the
  // computation of logarithms.
  double least;
  Rank best{0, ~kNotFinite};
};

}  // namespace runnel
