// Passes drawn ids on to the next step, so that the device need not wait for the host between two steps.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

// token_ids[i] = drawn[token_ids[i]] for num_rows rows, and 0 for a draw that found no id (kNotFinite): its
// sequence ends, so nobody needs the row.
cudaError_t feed(Global<const uint32_t> drawn, Global<uint32_t> token_ids, uint32_t num_rows,
                 cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_feed();

}  // namespace runnel
