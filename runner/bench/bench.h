// cpu-runner bench: how fast the engine computes, as llama-bench and llama-batched-bench measure it: a prompt
// alone, then decoding by several numbers of sequences at once.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "runner/bench/bench_report.h"
#include "runner/engine.h"
#include "runner/result.h"

namespace runnel {

struct BenchFlags {
  uint32_t num_prompt_tokens = 512;
  uint32_t num_generated = 128;
  uint32_t depth = 1;  // tokens that a sequence has before it decodes
  std::vector<uint32_t> batches = {1, 8, 32};
  uint32_t num_repeats = 3;
  bool json = false;
};

// Prints medians and spreads in tokens a second. Fails with kUsage when what is asked for does not fit into
// the context or the KV cache, or its sequences never decode together.
Result<void> bench(Engine& engine, const BenchFlags& flags, const BenchSubject& subject, std::ostream& out);

}  // namespace runnel
