// The requests of the benchmarks.
#pragma once

#include <cstdint>
#include <random>

#include "runner/engine/engine.h"
#include "runner/engine/request.h"
#include "runner/result.h"

namespace runnel {

inline constexpr uint64_t kPromptSeed = 1;  // of the random prompts

// A greedy request with a prompt of random ids, so that no prompt finds blocks of another one in the cache.
Request random_prompt(std::mt19937_64& random, uint32_t vocab_size, uint32_t num_prompt_tokens,
                      uint32_t max_tokens);

// Fails with kUsage if the engine refuses the request.
Result<void> submit(Request request, Engine& engine);

}  // namespace runnel
