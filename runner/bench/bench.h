// cpu-runner bench: the speed of the engine, measured as by llama-bench and llama-batched-bench: a prompt
// alone, then decoding of several numbers of sequences at once.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "runner/bench/bench_report.h"
#include "runner/engine/engine.h"
#include "runner/result.h"

namespace runnel {

struct BenchFlags {
  uint32_t num_prompt_tokens = 512;
  uint32_t num_generated = 128;
  uint32_t depth = 1;  // tokens of a sequence before it decodes
  std::vector<uint32_t> batches = {1, 8, 32};
  uint32_t num_repeats = 3;
  SamplingParams sampling = {.temperature = 0.0f};
  bool json = false;
};

// Prints medians and spreads in tokens per second. Fails with kUsage if the prompts and answers do not fit
// into the context or the KV cache, or if the sequences never decode together.
Result<void> bench(Engine& engine, const BenchFlags& flags, const BenchSubject& subject, std::ostream& out);

}  // namespace runnel
