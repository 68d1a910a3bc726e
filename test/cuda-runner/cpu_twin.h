// The CPU's operations on plain rows, to compare the GPU's with them. They are in a separate source file
// because the kernels of the two runners use the same names for different things.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/backend/kv_type.h"

namespace runnel::test {

std::vector<float> cpu_norm(std::span<const float> x, std::span<const float> gain, float epsilon);

// angles: the cosine and the sine of each pair, pair by pair.
void cpu_rotate(std::span<float> head, std::span<const float> angles, bool interleaved);

// keys and values: (positions, query.size()), not rounded to the cache's type yet. The query sees the
// positions from first_position on.
std::vector<float> cpu_attend(KvType type, std::span<const float> query, std::span<const float> keys,
                              std::span<const float> values, uint32_t first_position, float scale);

}  // namespace runnel::test
