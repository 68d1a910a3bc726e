// The kernel of attention of rows, and its launch.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/attend_rows-inl.h"
#include "cuda-runner/kernels/attend_variants-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/resident_blocks.h"

namespace runnel {

template <typename Attention, typename Memory>
__device__ void attend_pieces(const AttendInputs& in, const QueryGroups& groups, const SplitResults& results,
                              const ReadyRows& out, Memory& memory) {
  uint32_t index = blockIdx.x;
  while (index != Attention::kNothing) index = Attention::compute(in, groups, index, results, out, memory);
}

// Grid x: blocks, which take the pieces of the list in turn. The list says whether that is once for each
// group of queries or once for each query: a captured launch takes lists of both kinds.
template <KvType kType, uint32_t kQueries, uint32_t kWarps>
__global__ void __launch_bounds__(kWarps* kWarpSize,
                                  resident_blocks(resident_threads(kType, kQueries, kWarps) /
                                                      (kWarps * kWarpSize),
                                                  sizeof(RowMemory<kType, kQueries, kWarps>)))
    attend_rows_kernel(AttendInputs in, QueryGroups groups, QueryGroups apart, SplitResults results,
                       ReadyRows out) {
  using Memory = RowMemory<kType, kQueries, kWarps>;
  __shared__ Memory memory;
  let_next_begin();
  if (kQueries > 1 && in.work.counts().is_apart != 0) {
    attend_pieces<RowAttention<kType, 1, kWarps, Memory>>(in, apart, results, out, memory);
  } else {
    attend_pieces<RowAttention<kType, kQueries, kWarps, Memory>>(in, groups, results, out, memory);
  }
}

template <KvType kType>
cudaError_t attend_rows(const AttendInputs& in, const QueryGroups& groups, uint32_t num_blocks,
                        const SplitResults& results, const ReadyRows& out, cudaStream_t stream) {
  return with_variant(in.shape.head_dim, groups.size, [&]<typename V>(V) {
    const cudaLaunchConfig_t config = config_of(dim3(num_blocks), V::kChunks * kWarpSize, stream);
    return cudaLaunchKernelEx(&config, attend_rows_kernel<kType, V::kQueries, V::kChunks>, in, groups,
                              groups.apart(), results, out);
  });
}

template <KvType kType>
cudaError_t load_attend_rows(const AttentionShape& shape, const QueryGroups& groups) {
  return with_variant(shape.head_dim, groups.size,
                      []<typename V>(V) { return load(attend_rows_kernel<kType, V::kQueries, V::kChunks>); });
}

}  // namespace runnel
