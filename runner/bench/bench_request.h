// Requests as the benchmarks make them.
#pragma once

#include <cstdint>
#include <random>

#include "runner/engine.h"
#include "runner/request.h"
#include "runner/result.h"

namespace runnel {

inline constexpr uint64_t kPromptSeed = 1;  // of their prompts

// The most likely tokens after random ids: no prompt finds another's blocks in the cache.
Request random_prompt(std::mt19937_64& random, uint32_t vocab_size, uint32_t num_prompt_tokens,
                      uint32_t max_tokens);

// Fails with kUsage when the engine refuses it.
Result<void> submit(Request request, Engine& engine);

}  // namespace runnel
