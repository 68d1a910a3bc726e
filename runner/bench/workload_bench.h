// cpu-runner bench --workload: how fast the engine serves nano-vLLM's requests, which all come at once.
#pragma once

#include <cstdint>
#include <ostream>

#include "runner/bench/bench_report.h"
#include "runner/engine.h"
#include "runner/result.h"

namespace runnel {

struct WorkloadFlags {
  double fraction = 1.0;  // of the 256 requests; above 0, at most 1
  uint32_t num_warmups = 1;
  uint32_t num_iterations = 5;
  bool json = false;
};

// How many requests a fraction is: the first so many, one at least.
uint32_t workload_size(double fraction);

// Prints median, smallest and largest of the iterations for each column; docs/performance.md says what they
// are. Each iteration has an engine of its own, so that none finds the prompts of the one before in the
// cache. Fails with kUsage when a request does not fit into the context or the KV cache.
Result<void> workload_bench(Model& model, const EngineConfig& config, const WorkloadFlags& flags,
                            const BenchSubject& subject, std::ostream& out);

}  // namespace runnel
