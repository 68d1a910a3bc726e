// The CPU's operations on plain rows, to compare the GPU's with. In a source of their own: the two runners'
// kernels call different things by the same names.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/kv_type.h"

namespace runnel::test {

std::vector<float> cpu_norm(std::span<const float> x, std::span<const float> gain, float epsilon);

// angles: cosine and sine of each pair in turn.
void cpu_rotate(std::span<float> head, std::span<const float> angles, bool interleaved);

// keys and values: (positions, query.size()), not rounded yet; the query sees those from first_position on.
std::vector<float> cpu_attend(KvType type, std::span<const float> query, std::span<const float> keys,
                              std::span<const float> values, uint32_t first_position, float scale);

}  // namespace runnel::test
