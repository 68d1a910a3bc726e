// A first step on a device, before anybody waits for one. It shows what the driver takes of the device's
// memory beside what a plan counts: code of kernels, local memory, rounding of allocations, graphs.
#pragma once

#include <cstdint>

#include "runner/backend/backend.h"
#include "runner/commands/memory_plan.h"
#include "runner/models/model.h"
#include "runner/result.h"

namespace runnel {

// Allocates a cache of a few blocks of the plan's shape, and computes a part of a prompt and a next token,
// which is captured in a graph if the backend makes graphs. free_before: free bytes of the device before the
// weights were loaded. Returns the bytes that were taken beside those of the plan, with those of the graphs
// that are still to come. Fails as Backend::allocate_kv does. Only for a device that nobody else begins to
// use meanwhile.
Result<uint64_t> measure_unplanned(Model& model, Backend& backend, const MemoryPlan& plan,
                                   uint64_t free_before, uint32_t max_num_seqs);

}  // namespace runnel
