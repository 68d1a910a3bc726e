#include <algorithm>
#include <array>
#include <cmath>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/draw_bins-inl.h"
#include "cuda-runner/kernels/draw_row-inl.h"
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

// The last candidate that min_p keeps.
__device__ Rank last_of_min_p(const DeviceDraw& draw, const Rank& first) {
  return {key_of(logit_of(first.key) + log_f64(draw.min_p)), 0};
}

// --- kernels with a grid of (chunks, draws)

__global__ void __launch_bounds__(kChunkThreads) scan_kernel(DrawInputs in, DrawWorkspace work) {
  let_next_begin();
  wait_for_previous();
  __shared__ BlockFirst memory;
  const DrawChunk chunk = DrawChunk::of_block(in);
  if (chunk.draw.kind == DrawKind::kNone) return;
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
  first = memory.find(first);
  if (threadIdx.x == 0) work.firsts[place_of_block()] = first;
}

__global__ void __launch_bounds__(kChunkThreads, 6) contend_kernel(DrawInputs in, DrawWorkspace work) {
  let_next_begin();
  wait_for_previous();
  __shared__ BlockFirst memory;
  const DrawChunk chunk = DrawChunk::of_block(in);
  if (chunk.draw.kind != DrawKind::kNoise) return;
  const Rank first = largest_of(work.firsts, blockIdx.y, gridDim.x, memory);
  if (first.id() == kNotFinite) return;
  Rank last = kKeepAll;
  if (chunk.draw.min_p > 0.0f) last = last_of_min_p(chunk.draw, first);
  NoisyBest noisy(chunk.draw, first, last);
  const double first_logit = logit_of(first.key);
  const double least_logit = std::fmax(noisy.least - kMaxGumbel, logit_of(last.key));
  const float least = logit_floor(least_logit, std::fabs(first_logit), chunk.temperature);
  chunk.for_each_quad([&](uint32_t first_id, const Quad& quad) {
    uint32_t likely = 0;
    for (uint32_t i = 0; i < 4; ++i) likely |= (quad.logits[i] >= least ? 1u : 0u) << i;
    likely &= quad.candidates();
    if (likely == 0) return;
    const std::array<uint32_t, 4> bits = noisy.bits_of_quad(first_id / 4);
#pragma unroll 1
    for (uint32_t i = 0; i < 4; ++i)
      if ((likely >> i & 1) != 0)
        noisy.offer(chunk.tempered(one_of(quad.logits, i)), first_id + i, one_of(bits, i));
  });
  chunk.for_each_changed([&](double logit, uint32_t id) { noisy.offer(logit, id); });
  const Rank best = memory.find(noisy.best);
  if (threadIdx.x == 0) work.winners[place_of_block()] = best;
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
  const bool needs_weights = chunk.draw.top_k == 0;
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
  const KeptBins kept = memory.totals.find(work.bins.from(first_bin, gridDim.x * kDrawBins), chunk);
  if (blockIdx.x == 0 && threadIdx.x == 0) work.counts[blockIdx.y] = {kept.weight, kept.count};
  if (kept.count > room_for_gathered(in.vocab_size)) return;
  const Distances distances{logit_of(first.key)};
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

// The candidates that `gather` has copied.
struct Gathered {
  Global<double> logits;
  Global<uint32_t> ids;
  uint32_t count;

  template <typename Fn>
  __device__ void for_each(const Fn& fn) const {
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
      const double logit = logits[i];
      const uint32_t id = ids[i];
      fn(logit, id);
    }
  }
};

struct ChooseMemory {
  BlockFirst first;
  LastKeptMemory last;
};

// The drawn candidate of a draw with top_k or top_p. total: the weight of all candidates, used if there is no
// top_k.
template <typename Candidates>
__device__ Rank draw_among(const Candidates& candidates, const DeviceDraw& draw, const Rank& first,
                           uint64_t total, ChooseMemory& memory) {
  Rank last = kKeepAll;
  if (draw.top_k > 0)
    last = last_kept(
        candidates, last, draw.top_k, [](double) { return 1; }, memory.last);
  if (draw.top_p < 1.0f) {
    const double max = logit_of(first.key);
    const auto weigh = [max](double logit) { return exp_weight(logit - max); };
    if (draw.top_k > 0) {
      uint64_t sum = 0;
      candidates.for_each([&](double logit, uint32_t id) {
        if (!precedes(last, rank_of(logit, id))) sum += weigh(logit);
      });
      total = memory.last.sums.add(sum);
    }
    last = last_kept(candidates, last, needed_weight(draw, total), weigh, memory.last);
  }
  if (draw.min_p > 0.0f) {
    const Rank least = last_of_min_p(draw, first);
    if (precedes(least, last)) last = least;
  }
  NoisyBest noisy(draw, first, last);
  candidates.for_each([&](double logit, uint32_t id) { noisy.offer(logit, id); });
  return memory.first.find(noisy.best);
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
    if (kind == DrawKind::kBounds) {
      const GatheredCount gathered = work.counts[index];
      const uint32_t room = room_for_gathered(in.vocab_size);
      const size_t place = static_cast<size_t>(index) * room;
      const Gathered candidates{work.gathered_logits.from(place, room), work.gathered_ids.from(place, room),
                                static_cast<uint32_t>(gathered.count)};
      chosen = gathered.count <= room ? draw_among(candidates, row.draw, first, gathered.weight, memory)
                                      : draw_among(row, row.draw, first, gathered.weight, memory);
    }
  }
  if (threadIdx.x == 0) drawn[index] = chosen.id();
}

}  // namespace

uint32_t num_draw_chunks(uint32_t num_draws, uint32_t vocab_size) {
  const uint32_t wanted = std::min(divide_up(kWantedBlocks, num_draws), kWantedChunks);
  return std::clamp(wanted, divide_up(vocab_size, kMaxChunkIds), divide_up(vocab_size, kMinChunkIds));
}

cudaError_t draw(const DrawInputs& in, const DrawWorkspace& work, uint32_t num_draws, const DrawKinds& kinds,
                 Global<uint32_t> drawn, cudaStream_t stream) {
  const uint32_t num_chunks = num_draw_chunks(num_draws, in.vocab_size);
  const cudaLaunchConfig_t of_chunks = config_of(dim3(num_chunks, num_draws), kChunkThreads, stream);
  cudaError_t status = cudaLaunchKernelEx(&of_chunks, scan_kernel, in, work);
  if (status == cudaSuccess && kinds.has_noise)
    status = cudaLaunchKernelEx(&of_chunks, contend_kernel, in, work);
  if (status == cudaSuccess && kinds.has_bounds)
    status = cudaLaunchKernelEx(&of_chunks, weigh_kernel, in, work);
  if (status == cudaSuccess && kinds.has_bounds)
    status = cudaLaunchKernelEx(&of_chunks, gather_kernel, in, work);
  if (status != cudaSuccess) return status;
  const uint32_t num_warps = divide_up(in.vocab_size, kIdsOfThread * kWarpSize);
  const uint32_t num_threads =
      kinds.has_bounds ? std::clamp(num_warps, 1u, kMaxBlockWarps) * kWarpSize : kWarpSize;
  const cudaLaunchConfig_t of_draws = config_of(dim3(num_draws), num_threads, stream);
  return cudaLaunchKernelEx(&of_draws, choose_kernel, in, work, num_chunks, drawn);
}

cudaError_t load_draw() {
  return load_all(scan_kernel, contend_kernel, weigh_kernel, gather_kernel, choose_kernel);
}

}  // namespace runnel
