// What this process takes of the machine's memory, and what is left of it.
#pragma once

#include <cstdint>
#include <optional>

#include "runner/result.h"

namespace runnel {

// Bytes that are in memory now and are no file's: weights as laid out, KV cache, heap and stacks. Pages of
// the model file are left out, since the system takes those back when it likes. Fails with kSystem without
// /proc. What it reads is opened by the first call and stays open: a process that gives up opening files
// calls it before that.
Result<uint64_t> private_memory_bytes();

// Bytes that the system could still give this process: what is free or can be freed, within the limit of its
// address space. None without /proc. The first call opens what is read, as above.
std::optional<uint64_t> available_memory_bytes();

// Bytes that this process has set aside: all that is mapped, written to or not, but for what its heap has
// free. None without /proc.
std::optional<uint64_t> reserved_memory_bytes();

}  // namespace runnel
