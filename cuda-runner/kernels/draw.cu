#include <algorithm>
#include <array>
#include <cmath>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/draw_bins-inl.h"
#include "cuda-runner/kernels/draw_row-inl.h"
#include "cuda-runner/kernels/few_candidates-inl.h"
#include "cuda-runner/kernels/last_kept-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/noise-inl.h"
#include "runner/backend/numerics.h"
#include "runner/sampling/exp_sum.h"

namespace runnel {
namespace {

constexpr uint32_t kChunkWarps = 4;
constexpr uint32_t kChunkThreads = kChunkWarps * kWarpSize;
// Ids of a chunk: two quads for each thread, or more if there are many draws. With a limit, since BinColumns
// has only so many bits.
constexpr uint32_t kMinChunkIds = 8 * kChunkThreads;
constexpr uint32_t kMaxChunkIds = 128 * kChunkThreads;
// Enough blocks for every device, and few enough that a block can read what the others of its draw found.
constexpr uint32_t kWantedBlocks = 1024;
constexpr uint32_t kWantedChunks = 64;
// `choose` has a thread for this many ids, up to kMaxThreads.
constexpr uint32_t kIdsOfThread = 8;
constexpr uint32_t kMaxThreads = kMaxBlockWarps * kWarpSize;

// The largest of the ranks that the blocks of a draw have found. All threads of the block must call it.
__device__ Rank largest_of(const Global<Rank>& ranks, uint32_t draw, uint32_t num_chunks,
                           BlockFirst& memory) {
  Rank largest = kNoRank;
  for (uint32_t i = threadIdx.x; i < num_chunks; i += blockDim.x) {
    const Rank rank = ranks[static_cast<size_t>(draw) * num_chunks + i];
    if (precedes(rank, largest)) largest = rank;
  }
  return memory.find(largest);
}

// Where the results of this block of a grid of (chunks, draws) lie.
__device__ size_t place_of_block() {
  return static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
}

// --- kernels with a grid of (chunks, draws)

// The most likely candidate among those of this thread.
__device__ Rank first_of_thread(const DrawChunk& chunk) {
  float most = -INFINITY;
  uint32_t most_id = 0;
  bool is_finite = true;
  chunk.for_each_quad([&](uint32_t first_id, const Quad& quad) {
    const uint32_t candidates = quad.candidates();
    for (uint32_t i = 0; i < 4; ++i) {
      const float logit = quad.logits[i];
      is_finite = is_finite && std::isfinite(logit);
      if ((candidates >> i & 1) == 0 || !(logit > most)) continue;
      most = logit;
      most_id = first_id + i;
    }
  });
  Rank first = kNoRank;
  if (most > -INFINITY) first = rank_of(chunk.tempered(most), most_id);
  chunk.for_each_changed([&](double logit, uint32_t id) {
    const Rank rank = rank_of(logit, id);
    if (precedes(rank, first)) first = rank;
  });
  if (!is_finite) first = kNotFiniteRank;
  return first;
}

// The candidate of this thread that is largest with noise. first: the most likely one of the chunk.
__device__ Rank winner_of_thread(const DrawChunk& chunk, const Rank& first) {
  NoisyBest noisy(chunk, first, kKeepAll);
  const float least =
      logit_floor(noisy.least - kMaxGumbel, std::fabs(logit_of(first.key)), chunk.temperature);
  chunk.for_each_quad([&](uint32_t first_id, const Quad& quad) {
    uint32_t likely = 0;
    for (uint32_t i = 0; i < 4; ++i)
      if (quad.logits[i] >= least) likely |= 1u << i;
    likely &= quad.candidates();
    if (likely == 0) return;
    const std::array<uint32_t, 4> bits = noisy.bits_of_quad(first_id / 4);
#pragma unroll 1
    for (uint32_t i = 0; i < 4; ++i)
      if ((likely >> i & 1) != 0)
        noisy.offer(chunk.tempered(one_of(quad.logits, i)), first_id + i, one_of(bits, i));
  });
  chunk.for_each_changed([&](double logit, uint32_t id) { noisy.offer(logit, id); });
  return noisy.best;
}

__global__ void __launch_bounds__(kChunkThreads, 6) scan_kernel(DrawInputs in, DrawWorkspace work) {
  let_next_begin();
  wait_for_previous();
  __shared__ BlockFirst memory;
  const DrawChunk chunk = DrawChunk::of_block(in);
  if (chunk.draw.kind == DrawKind::kNone) return;
  const Rank first = memory.find(first_of_thread(chunk));
  if (threadIdx.x == 0) work.firsts[place_of_block()] = first;
  if (chunk.draw.kind != DrawKind::kNoise) return;
  Rank winner = first;
  if (first.id() != kNotFinite) winner = memory.find(winner_of_thread(chunk, first));
  if (threadIdx.x == 0) work.winners[place_of_block()] = winner;
}

__global__ void __launch_bounds__(kChunkThreads) weigh_kernel(DrawInputs in, DrawWorkspace work) {
  let_next_begin();
  wait_for_previous();
  __shared__ BlockFirst memory;
  __shared__ BinColumns<kChunkWarps> bins;
  const DrawChunk chunk = DrawChunk::of_block(in);
  if (chunk.draw.kind != DrawKind::kBounds) return;
  bins.clear();
  const Rank first = largest_of(work.firsts, blockIdx.y, gridDim.x, memory);
  if (first.id() == kNotFinite) return;
  const Distances distances{logit_of(first.key)};
  // With top_k, top_p is a share of what top_k keeps, which `choose` adds up.
  const bool needs_weights = chunk.draw.top_k == 0 && chunk.draw.top_p < 1.0f;
  chunk.for_each(distances.floor_of(kDrawBins - 1, chunk.temperature), [&](double logit, uint32_t) {
    if (!distances.is_relevant(logit)) return;
    bins.add(distances.bin_of(logit), needs_weights ? exp_weight(logit - distances.first) : 0);
  });
  bins.store(work.bins.from(place_of_block() * kDrawBins, kDrawBins));
}

struct GatherMemory {
  BlockFirst first;
  BlockSums sums;
  BinTotals<kChunkWarps> totals;
};

__global__ void __launch_bounds__(kChunkThreads) gather_kernel(DrawInputs in, DrawWorkspace work) {
  let_next_begin();
  wait_for_previous();
  __shared__ GatherMemory memory;
  const DrawChunk chunk = DrawChunk::of_block(in);
  if (chunk.draw.kind != DrawKind::kBounds) return;
  const Rank first = largest_of(work.firsts, blockIdx.y, gridDim.x, memory.first);
  if (first.id() == kNotFinite) return;
  const size_t first_bin = static_cast<size_t>(blockIdx.y) * gridDim.x * kDrawBins;
  const Distances distances{logit_of(first.key)};
  const KeptBins kept =
      memory.totals.find(work.bins.from(first_bin, gridDim.x * kDrawBins), chunk, distances);
  if (blockIdx.x == 0 && threadIdx.x == 0) work.counts[blockIdx.y] = {kept.weight, kept.count};
  if (kept.count > room_for_gathered(in.vocab_size)) return;
  const float least = distances.floor_of(kept.last, chunk.temperature);
  const auto is_kept = [&](double logit) {
    return distances.is_relevant(logit) && distances.bin_of(logit) <= kept.last;
  };
  uint32_t count = 0;
  chunk.for_each(least, [&](double logit, uint32_t) { count += is_kept(logit) ? 1 : 0; });
  size_t place = static_cast<size_t>(blockIdx.y) * room_for_gathered(in.vocab_size) + kept.before +
                 memory.sums.before(count);
  chunk.for_each(least, [&](double logit, uint32_t id) {
    if (!is_kept(logit)) return;
    work.gathered_logits[place] = logit;
    work.gathered_ids[place] = id;
    ++place;
  });
}

// --- the last kernel, with a block for each draw

struct ChooseMemory {
  BlockFirst first;
  LastKeptMemory last;
  FewMemory few;
};

// The last candidate that top_k and top_p keep. total: the weight of all candidates, used if there is no
// top_k.
template <typename Candidates>
__device__ Rank last_of(const Candidates& candidates, const DeviceDraw& draw, double max, uint64_t total,
                        LastKeptMemory& memory) {
  Rank last = kKeepAll;
  if (draw.top_k > 0)
    last = last_kept(
        candidates, last, draw.top_k, [](double) { return 1; }, memory);
  if (draw.top_p >= 1.0f) return last;
  const auto weigh = [max](double logit) { return exp_weight(logit - max); };
  if (draw.top_k > 0) {
    uint64_t sum = 0;
    candidates.for_each([&](double logit, uint32_t id) {
      if (!precedes(last, rank_of(logit, id))) sum += weigh(logit);
    });
    total = memory.sums.add(sum);
  }
  return last_kept(candidates, last, needed_weight(draw, total), weigh, memory);
}

template <typename Candidates>
__device__ Rank winner_among(const Candidates& candidates, const DrawChunk& row, const Rank& first, Rank last,
                             BlockFirst& memory) {
  if (row.draw.min_p > 0.0f) {
    const Rank least{key_of(least_of_min_p(row.draw, logit_of(first.key))), 0};
    if (precedes(least, last)) last = least;
  }
  NoisyBest noisy(row, first, last);
  candidates.for_each([&](double logit, uint32_t id) { noisy.offer(logit, id); });
  return memory.find(noisy.best);
}

// What is drawn with top_k, top_p or min_p.
__device__ Rank draw_bounded(const DrawInputs& in, const DrawWorkspace& work, const DrawChunk& row,
                             const Rank& first, ChooseMemory& memory) {
  const uint32_t index = blockIdx.x;
  const double max = logit_of(first.key);
  const GatheredCount gathered = work.counts[index];
  const uint32_t room = room_for_gathered(in.vocab_size);
  if (gathered.count > room) {
    const Rank last = last_of(row, row.draw, max, gathered.weight, memory.last);
    return winner_among(row, row, first, last, memory.first);
  }
  const size_t place = static_cast<size_t>(index) * room;
  const auto count = static_cast<uint32_t>(gathered.count);
  const Gathered candidates{work.gathered_logits.from(place, count), work.gathered_ids.from(place, count),
                            count};
  const Rank last = count <= kMaxFew && count <= blockDim.x
                        ? last_of_few(candidates, row.draw, max, gathered.weight, memory.few)
                        : last_of(candidates, row.draw, max, gathered.weight, memory.last);
  return winner_among(candidates, row, first, last, memory.first);
}

// Grid x: draws.
__global__ void __launch_bounds__(kMaxThreads, 1)
    choose_kernel(DrawInputs in, DrawWorkspace work, uint32_t num_chunks, Global<uint32_t> drawn) {
  let_next_begin();
  wait_for_previous();
  __shared__ ChooseMemory memory;
  const uint32_t index = blockIdx.x;
  const DrawChunk row(in, index, 0, 1);
  const DrawKind kind = row.draw.kind;
  if (kind == DrawKind::kNone) return;
  const Rank first = largest_of(work.firsts, index, num_chunks, memory.first);
  Rank chosen = first;
  if (first.id() != kNotFinite) {
    if (kind == DrawKind::kNoise) chosen = largest_of(work.winners, index, num_chunks, memory.first);
    if (kind == DrawKind::kBounds) chosen = draw_bounded(in, work, row, first, memory);
  }
  if (threadIdx.x == 0) drawn[index] = chosen.id();
}

}  // namespace

uint32_t num_draw_chunks(uint32_t num_draws, uint32_t vocab_size) {
  const uint32_t wanted = std::min(divide_up(kWantedBlocks, num_draws), kWantedChunks);
  return std::clamp(wanted, divide_up(vocab_size, kMaxChunkIds), divide_up(vocab_size, kMinChunkIds));
}

cudaError_t draw(const DrawInputs& in, const DrawWorkspace& work, uint32_t num_draws, bool has_bounds,
                 Global<uint32_t> drawn, cudaStream_t stream) {
  const uint32_t num_chunks = num_draw_chunks(num_draws, in.vocab_size);
  const cudaLaunchConfig_t of_chunks = config_of(dim3(num_chunks, num_draws), kChunkThreads, stream);
  cudaError_t status = cudaLaunchKernelEx(&of_chunks, scan_kernel, in, work);
  if (status == cudaSuccess && has_bounds) status = cudaLaunchKernelEx(&of_chunks, weigh_kernel, in, work);
  if (status == cudaSuccess && has_bounds) status = cudaLaunchKernelEx(&of_chunks, gather_kernel, in, work);
  if (status != cudaSuccess) return status;
  const uint32_t num_warps = divide_up(in.vocab_size, kIdsOfThread * kWarpSize);
  const uint32_t num_threads = has_bounds ? std::clamp(num_warps, 1u, kMaxBlockWarps) * kWarpSize : kWarpSize;
  const cudaLaunchConfig_t of_draws = config_of(dim3(num_draws), num_threads, stream);
  return cudaLaunchKernelEx(&of_draws, choose_kernel, in, work, num_chunks, drawn);
}

cudaError_t load_draw() {
  return load_all(scan_kernel, weigh_kernel, gather_kernel, choose_kernel);
}

}  // namespace runnel
