// Candidates by their distance from the most likely one, in ranges of equal width. A bin has the number of
// its candidates and the sum of their weights, so the bins tell how far down top_k and top_p may keep
// candidates.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/draw_row-inl.h"
#include "cuda-runner/kernels/lang.h"
#include "runner/backend/numerics.h"
#include "runner/sampling/exp_sum.h"
#include "runner/sampling/gumbel.h"

namespace runnel {

// Candidates that are further than this from the most likely one have no weight (see exp_weight).
inline constexpr double kWeightlessDistance = 28.0;
// A lower bound of gumbel(): -log(-log(0.5 / 2^32)) is above -3.14.
inline constexpr double kMinGumbel = -3.2;

// Distances from the most likely candidate.
struct Distances {
  double first;  // the logit of that candidate

  // Whether the candidate has a weight, or may win with noise. All others have no part in a draw, so that
  // there they need not be counted. If a logit is relevant, so is each larger one.
  __device__ bool is_relevant(double logit) const {
    return first - logit <= kWeightlessDistance || logit + kMaxGumbel >= first + kMinGumbel;
  }
  // Does not fall with the distance. The logit must be relevant.
  __device__ uint32_t bin_of(double logit) const {
    const double bin = (first - logit) * (kDrawBins / kWeightlessDistance);
    return bin < kDrawBins ? static_cast<uint32_t>(bin) : kDrawBins - 1;
  }
  // No relevant candidate of this bin, and of those before, has a logit below the result.
  __device__ float floor_of(uint32_t bin, double temperature) const {
    return logit_floor(first - (bin + 1) * (kWeightlessDistance / kDrawBins), std::fabs(first), temperature);
  }
};

// The weight that top_p keeps, if the candidates together have this weight.
__device__ inline uint64_t needed_weight(const DeviceDraw& draw, uint64_t total) {
  const double share = std::ceil(static_cast<double>(draw.top_p) * static_cast<double>(total));
  const auto needed = static_cast<uint64_t>(share);
  return needed > 1 ? needed : 1;
}

// The least logit that min_p keeps.
__device__ inline double least_of_min_p(const DeviceDraw& draw, double max) {
  return max + log_f64(draw.min_p);
}

// The bins of a chunk. Each lane of each warp counts for itself. A column is a 64-bit number with the count
// in the upper 16 bits. A thread has fewer than 2^9 candidates (see num_draw_chunks), and none weighs more
// than 2^39, so the sum of their weights fits the lower 48.
template <uint32_t kWarps>
struct BinColumns {
  static constexpr uint32_t kCountShift = 48;
  Shared<uint64_t, kWarps * kDrawBins * kWarpSize> columns;
  Shared<uint64_t, kWarps * kDrawBins> weights;
  Shared<uint64_t, kWarps * kDrawBins> counts;

  __device__ void clear() {
    for (uint32_t bin = 0; bin < kDrawBins; ++bin) columns[place(bin)] = 0;
  }
  __device__ void add(uint32_t bin, uint64_t weight) {
    columns[place(bin)] += (uint64_t{1} << kCountShift) + weight;
  }
  // Writes the sums over all threads, which must all call it.
  __device__ void store(Global<DrawBin> bins) {
    sync_block();
    // Lane i adds up bin i of the warp. It begins with a column of its own, as all columns of a lane lie in
    // one bank.
    uint64_t weight = 0;
    uint64_t count = 0;
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      const uint64_t column = columns[(warp() * kDrawBins + lane()) * kWarpSize + (lane() + i) % kWarpSize];
      weight += column & ((uint64_t{1} << kCountShift) - 1);
      count += column >> kCountShift;
    }
    weights[warp() * kDrawBins + lane()] = weight;
    counts[warp() * kDrawBins + lane()] = count;
    sync_block();
    if (warp() != 0) return;
    DrawBin bin{0, 0};
    for (uint32_t i = 0; i < kWarps; ++i) {
      bin.weight += weights[i * kDrawBins + lane()];
      bin.count += counts[i * kDrawBins + lane()];
    }
    bins[lane()] = bin;
  }

 private:
  __device__ static uint32_t place(uint32_t bin) { return (warp() * kDrawBins + bin) * kWarpSize + lane(); }
  static_assert(kDrawBins == kWarpSize);
};

// The bins of which top_k, top_p or min_p may keep candidates: those up to `last`.
struct KeptBins {
  uint32_t last;
  uint64_t weight;  // of all bins
  uint64_t count;   // of the candidates in the kept bins
  uint64_t before;  // of those, how many are in chunks before this one
};

template <uint32_t kWarps>
struct BinTotals {
  Shared<uint64_t, kWarps * kDrawBins> weights;
  Shared<uint64_t, kWarps * kDrawBins> counts;
  Shared<uint64_t, kWarps * kDrawBins> befores;

  // bins (num_chunks, kDrawBins): of all chunks of the draw. All threads of the block must call it, and all
  // get the same result.
  __device__ KeptBins find(const Global<DrawBin>& bins, const DrawChunk& chunk, const Distances& distances) {
    // Lane i has bin i; the warps share the chunks.
    DrawBin all{0, 0};
    uint64_t before = 0;
    for (uint32_t i = warp(); i < chunk.num_chunks; i += kWarps) {
      const DrawBin bin = bins[i * kDrawBins + lane()];
      all.weight += bin.weight;
      all.count += bin.count;
      if (i < chunk.index) before += bin.count;
    }
    weights[warp() * kDrawBins + lane()] = all.weight;
    counts[warp() * kDrawBins + lane()] = all.count;
    befores[warp() * kDrawBins + lane()] = before;
    sync_block();
    all = {0, 0};
    before = 0;
    for (uint32_t i = 0; i < kWarps; ++i) {
      all.weight += weights[i * kDrawBins + lane()];
      all.count += counts[i * kDrawBins + lane()];
      before += befores[i * kDrawBins + lane()];
    }
    const uint64_t weight = sum_up_to_lane(all.weight);
    const uint64_t count = sum_up_to_lane(all.count);
    KeptBins kept;
    kept.weight = shuffle_wide(weight, kWarpSize - 1);
    const DeviceDraw& draw = chunk.draw;
    bool is_enough = false;
    if (draw.top_k > 0) {
      is_enough = count >= draw.top_k;
    } else if (draw.top_p < 1.0f) {
      is_enough = weight >= needed_weight(draw, kept.weight);
    } else {
      is_enough = lane() >= distances.bin_of(least_of_min_p(draw, distances.first));
    }
    // The sums do not fall, so the first bin that is enough is the smallest number.
    kept.last = is_enough ? lane() : kDrawBins - 1;
    for (uint32_t mask = kWarpSize / 2; mask > 0; mask /= 2) {
      const uint32_t other = shuffle_xor(kept.last, mask);
      kept.last = other < kept.last ? other : kept.last;
    }
    kept.count = shuffle_wide(count, kept.last);
    kept.before = shuffle_wide(sum_up_to_lane(before), kept.last);
    return kept;
  }
};

}  // namespace runnel
