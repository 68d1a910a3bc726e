// --memory-bytes: what a budget for the whole process leaves for the KV cache.
#pragma once

#include <cstdint>

#include "runner/backend.h"
#include "runner/models/model.h"
#include "runner/result.h"

namespace runnel {

// Kept free for what comes with requests: their tokens, the blocks' bookkeeping, frames.
constexpr uint64_t kReserveShare = 32;  // one part in so many of the budget
constexpr uint64_t kMinReserveBytes = uint64_t{4} << 20;

// Bytes for the KV cache, at least one block of this shape. Measured, not estimated: one step is computed
// with a cache of one block, so that what is allocated at first use is there. The backend is left with that
// cache. Fails with kUsage, naming what is needed, with kSystem, and as allocate_kv does.
Result<uint64_t> kv_bytes_within(uint64_t memory_bytes, Model& model, Backend& backend, KvShape shape,
                                 uint32_t max_rows);

}  // namespace runnel
