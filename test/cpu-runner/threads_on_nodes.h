// Threads of NUMA nodes that are made up.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu-runner/thread_pool.h"
#include "runner/check.h"

namespace runnel::test {

inline std::vector<NodeThreads> threads_on_nodes(uint32_t num_threads, uint32_t num_nodes) {
  return divide_threads(made_up_nodes(num_nodes), 0, num_threads, num_threads);
}

// A pool has no more nodes than threads.
inline std::unique_ptr<ThreadPool> pool_on_nodes(uint32_t num_threads, uint32_t num_nodes) {
  auto pool = ThreadPool::create(num_threads, threads_on_nodes(num_threads, num_nodes));
  RUNNEL_CHECK(pool.ok());
  return *std::move(pool);
}

}  // namespace runnel::test
