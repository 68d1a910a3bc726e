// How much memory the process holds that is not a file's: what the system could not take away and read again.
#pragma once

#include <cstdint>
#include <optional>

namespace runnel {

// In bytes; none where the system does not tell.
std::optional<uint64_t> anonymous_memory_bytes();

}  // namespace runnel
