#include <algorithm>
#include <array>
#include <cmath>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/candidates-inl.h"
#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/last_kept-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "runner/backend/numerics.h"
#include "runner/sampling/exp_sum.h"
#include "runner/sampling/gumbel.h"

namespace runnel {
namespace {

constexpr uint32_t kMaxThreads = kMaxBlockWarps * kWarpSize;
// Ids of a thread, at least. Small vocabularies have fewer threads.
constexpr uint32_t kIdsOfThread = 8;

struct DrawMemory {
  BlockFirst first;
  LastKeptMemory last;
};

// Returns the last candidate that top_k, top_p and min_p keep, in the order from most to least likely.
__device__ Rank last_of(const BlockDraw& in, uint64_t num_candidates, double max, LastKeptMemory& memory) {
  Rank last = kKeepAll;
  if (in.draw.top_k > 0 && in.draw.top_k < num_candidates)
    last = last_kept(
        in, last, in.draw.top_k, [](double) { return 1; }, memory);
  if (in.draw.top_p < 1.0f) {
    const auto weigh = [max](double logit) { return exp_weight(logit - max); };
    uint64_t sum = 0;
    for (uint32_t id = threadIdx.x; id < in.vocab_size; id += blockDim.x) {
      const double logit = in.candidates[id];
      if (!precedes(last, rank_of(logit, id))) sum += weigh(logit);
    }
    const uint64_t total = memory.sums.add(sum);
    const double share = std::ceil(static_cast<double>(in.draw.top_p) * static_cast<double>(total));
    const auto needed = static_cast<uint64_t>(share);
    last = last_kept(in, last, needed > 1 ? needed : 1, weigh, memory);
  }
  if (in.draw.min_p > 0.0f) {
    const Rank least{key_of(max + log_f64(in.draw.min_p)), 0};
    if (precedes(least, last)) last = least;
  }
  return last;
}

// The best of this thread's candidates by Gumbel-max (docs/numerics.md). first: the most likely candidate of
// all threads. last: the least likely one that is kept.
__device__ Rank gumbel_max(const BlockDraw& in, const Rank& first, const Rank& last) {
  const uint64_t seed = in.draw.seed;
  const uint32_t position = in.draw.position;
  Rank best{0, 0};
  // A lower bound of the value that wins. Few candidates can reach it; for the others gumbel_bound saves the
  // computation of logarithms.
  double least = logit_of(first.key) + gumbel(gumbel_bits(seed, position, first.id() / 4)[first.id() % 4]);
  for (uint32_t group = threadIdx.x; 4 * group < in.vocab_size; group += blockDim.x) {
    const std::array<uint32_t, 4> bits = gumbel_bits(seed, position, group);
    for (uint32_t i = 0; i < 4 && 4 * group + i < in.vocab_size; ++i) {
      const uint32_t id = 4 * group + i;
      const double logit = in.candidates[id];
      if (precedes(last, rank_of(logit, id)) || logit + gumbel_bound(bits[i]) < least) continue;
      const double drawn = logit + gumbel(bits[i]);
      const Rank rank = rank_of(drawn, id);
      if (!precedes(rank, best)) continue;
      best = rank;
      least = std::fmax(least, drawn);
    }
  }
  return best;
}

// Grid x: draws.
__global__ void __launch_bounds__(kMaxThreads, 1) draw_kernel(DrawInputs in, Global<uint32_t> drawn) {
  let_next_begin();
  wait_for_previous();
  __shared__ DrawMemory memory;
  const DeviceDraw draw = in.draws[blockIdx.x];
  const size_t row = static_cast<size_t>(draw.row) * in.vocab_size;
  const size_t place = static_cast<size_t>(blockIdx.x) * in.vocab_size;
  const BlockDraw block{draw, in.words, in.logits.from(row, in.vocab_size),
                        in.candidates.from(place, in.vocab_size), in.vocab_size};
  const bool is_greedy = draw.temperature < kGreedyTemperature;
  const ThreadCandidates own = prepare_candidates(block, is_greedy);
  const uint64_t num_not_finite = memory.last.sums.add(own.num_not_finite);
  const Rank first = memory.first.find(own.first);
  Rank chosen = first;
  if (num_not_finite > 0) {
    chosen = {0, ~kNotFinite};
  } else if (!is_greedy) {
    const uint64_t num_candidates = memory.last.sums.add(own.num_candidates);
    const Rank last = last_of(block, num_candidates, logit_of(first.key), memory.last);
    chosen = memory.first.find(gumbel_max(block, first, last));
  }
  if (threadIdx.x == 0) drawn[blockIdx.x] = chosen.id();
}

}  // namespace

cudaError_t draw(const DrawInputs& in, uint32_t num_draws, Global<uint32_t> drawn, cudaStream_t stream) {
  const uint32_t num_warps = divide_up(in.vocab_size, kIdsOfThread * kWarpSize);
  const uint32_t num_threads = std::clamp(num_warps, 1u, kMaxBlockWarps) * kWarpSize;
  const cudaLaunchConfig_t config = config_of(dim3(num_draws), num_threads, stream);
  return cudaLaunchKernelEx(&config, draw_kernel, in, drawn);
}

cudaError_t load_draw() {
  return load_all(draw_kernel);
}

}  // namespace runnel
