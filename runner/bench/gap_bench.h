// cpu-runner bench --long-prompt: how the arrival of a long prompt affects running streams, measured as the
// time between two of their tokens.
#pragma once

#include <cstdint>
#include <ostream>

#include "runner/bench/bench_report.h"
#include "runner/engine/engine.h"
#include "runner/result.h"

namespace runnel {

struct GapFlags {
  uint32_t num_prompt_tokens = 4000;
  uint32_t num_streams = 8;
  bool json = false;
};

// Prints the median gap before the prompt arrives; p50, p99 and maximum of the gaps that end after it
// arrived, up to the first that ends after the prompt's first token; and the ratio of that p99 to that
// median. Fails with kUsage if the prompts and answers do not fit into the context or the KV cache.
Result<void> gap_bench(Engine& engine, const GapFlags& flags, const BenchSubject& subject, std::ostream& out);

}  // namespace runnel
