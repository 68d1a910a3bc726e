// --memory-bytes and --gpu-memory-utilization: the part of a budget that is left for the KV cache. The budget
// is for the whole process, or for everything on the device.
#pragma once

#include <cstdint>

#include "runner/backend/backend.h"
#include "runner/models/model.h"
#include "runner/result.h"

namespace runnel {

// Reserve for what requests add: their tokens, the bookkeeping of blocks, frames.
constexpr uint64_t kReserveShare = 32;  // the reserve is 1 / kReserveShare of the budget
constexpr uint64_t kMinReserveBytes = uint64_t{4} << 20;

// Bytes for the KV cache, at least one block of this shape. They are measured, not estimated: one step is
// computed with a cache of one block, so that allocations of the first use are included. The backend keeps
// that cache. Fails with kUsage, naming the bytes that are needed, with kSystem, and as allocate_kv does.
Result<uint64_t> kv_bytes_within(uint64_t memory_bytes, Model& model, Backend& backend, KvShape shape,
                                 uint32_t max_rows);

// Bytes for the KV cache, at least one block of this shape, if everything on the device may take this share
// of its memory. What other programs use counts too. What is taken is measured with a cache of one block,
// which the backend keeps; captured graphs take their memory later. Fails with kSystem, naming a share that
// is enough, and as allocate_kv does.
Result<uint64_t> kv_bytes_of_share(double share, Backend& backend, KvShape shape);

}  // namespace runnel
