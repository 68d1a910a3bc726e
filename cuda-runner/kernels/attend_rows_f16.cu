#include "cuda-runner/kernels/attend_rows_kernel-inl.h"

namespace runnel {

template cudaError_t attend_rows<KvType::kF16>(const AttendInputs& in, const QueryGroups& groups,
                                               uint32_t num_blocks, const SplitResults& results,
                                               const ReadyRows& out, cudaStream_t stream);
template cudaError_t load_attend_rows<KvType::kF16>(const AttentionShape& shape, const QueryGroups& groups);

}  // namespace runnel
