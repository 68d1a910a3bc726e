// How much of the machine's memory this process uses, and how much is available to it.
#pragma once

#include <cstdint>
#include <optional>

#include "runner/result.h"

namespace runnel {

// Bytes in memory now that do not belong to a file on a disk: weights in the layout of products, also if
// other runners share them, KV cache, heap and stacks. Pages of the model file do not count, since the system
// can reclaim them at any time. Fails with kSystem without /proc. The first call opens a file that stays
// open, so a process that gives up opening files must call this before.
Result<uint64_t> private_memory_bytes();

// Bytes that the system can still give this process: memory that is free or can be freed, within the limits
// of its cgroups and of its address space. Nothing without /proc. The first call opens files that stay open,
// as above.
std::optional<uint64_t> available_memory_bytes();

// The most that available_memory_bytes() can be, whatever else is running: the machine's memory within the
// limits of the cgroups. Nothing without /proc. The first call opens files that stay open, as above.
std::optional<uint64_t> total_memory_bytes();

}  // namespace runnel
