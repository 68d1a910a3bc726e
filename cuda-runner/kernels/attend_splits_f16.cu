#include "cuda-runner/kernels/attend_splits-inl.h"

namespace runnel {

template cudaError_t attend_splits<KvType::kF16>(const AttendInputs& in, const SplitResults& results,
                                                 cudaStream_t stream);
template cudaError_t load_attend_splits<KvType::kF16>();

}  // namespace runnel
