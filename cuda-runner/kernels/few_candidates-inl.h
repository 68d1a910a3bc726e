// The candidates that the kernel `gather` has copied, and top_k and top_p among a few of them: each is
// compared with each other one, which takes less time than the rounds of last_kept-inl.h.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/draw_bins-inl.h"
#include "cuda-runner/kernels/rank-inl.h"
#include "runner/sampling/exp_sum.h"

namespace runnel {

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

inline constexpr uint32_t kMaxFew = 256;

struct FewMemory {
  BlockSums sums;
  Shared<uint64_t, kMaxFew> keys;
  Shared<uint32_t, kMaxFew> ties;
  Shared<uint64_t, kMaxFew> weights;
  Shared<uint64_t, 1> last_key;
  Shared<uint32_t, 1> last_tie;
};

// Returns what last_kept would find for top_k, and then for top_p. There are at most kMaxFew candidates, and
// no more than threads. total: the weight of all candidates, used if there is no top_k. All threads of the
// block must call it.
__device__ inline Rank last_of_few(const Gathered& candidates, const DeviceDraw& draw, double max,
                                   uint64_t total, FewMemory& memory) {
  Rank own = kNoRank;
  uint64_t weight = 0;
  candidates.for_each([&](double logit, uint32_t id) {
    own = rank_of(logit, id);
    weight = exp_weight(logit - max);
    memory.keys[threadIdx.x] = own.key;
    memory.ties[threadIdx.x] = own.tie;
    memory.weights[threadIdx.x] = weight;
  });
  if (threadIdx.x == 0) {
    memory.last_key[0] = kKeepAll.key;
    memory.last_tie[0] = kKeepAll.tie;
  }
  sync_block();
  bool is_kept = threadIdx.x < candidates.count;
  uint32_t num_before = 0;  // candidates that precede this thread's one, and their weight
  uint64_t before = 0;
  for (uint32_t i = 0; is_kept && i < candidates.count; ++i) {
    const Rank other{memory.keys[i], memory.ties[i]};
    const bool is_before = precedes(other, own);
    num_before += is_before ? 1 : 0;
    before += is_before ? static_cast<uint64_t>(memory.weights[i]) : 0;
  }
  is_kept = is_kept && (draw.top_k == 0 || num_before < draw.top_k);
  bool is_last = is_kept && num_before + 1 == draw.top_k;
  if (draw.top_p < 1.0f) {
    if (draw.top_k > 0) total = memory.sums.add(is_kept ? weight : 0);
    const uint64_t needed = needed_weight(draw, total);
    is_last = is_kept && before < needed && before + weight >= needed;
  }
  if (is_last) {
    memory.last_key[0] = own.key;
    memory.last_tie[0] = own.tie;
  }
  sync_block();
  return {memory.last_key[0], memory.last_tie[0]};
}

}  // namespace runnel
