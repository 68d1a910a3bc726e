// cpu-runner bench --workload: how fast the engine serves nano-vLLM's requests, which all arrive at once.
#pragma once

#include <cstdint>
#include <ostream>

#include "runner/bench/bench_report.h"
#include "runner/engine/engine.h"
#include "runner/result.h"

namespace runnel {

struct WorkloadFlags {
  double fraction = 1.0;  // of the 256 requests; above 0, at most 1
  uint32_t num_warmups = 1;
  uint32_t num_iterations = 5;
  bool json = false;
};

// The number of requests for a fraction, which are the first ones; at least one.
uint32_t workload_size(double fraction);

// Prints median, minimum and maximum of the iterations for each column; docs/performance.md explains the
// columns. Each iteration has an engine of its own, so that it does not find the prompts of the one before in
// the cache. Fails with kUsage if a request does not fit into the context or the KV cache.
Result<void> workload_bench(Model& model, const EngineConfig& config, const WorkloadFlags& flags,
                            const BenchSubject& subject, std::ostream& out);

}  // namespace runnel
