#include "cuda-runner/kernels/attend_tiles-inl.h"

namespace runnel {

template cudaError_t attend_tiles<KvType::kQ8_0>(const AttendInputs& in, const ReadyRows& out,
                                                 cudaStream_t stream);
template cudaError_t load_attend_tiles<KvType::kQ8_0>(const AttentionShape& shape);

}  // namespace runnel
