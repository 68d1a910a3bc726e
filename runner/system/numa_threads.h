// How the threads of a process are divided among NUMA nodes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/system/topology.h"

namespace runnel {

struct NodeThreads {
  uint32_t num_threads;
  std::vector<uint32_t> processors;  // that they are bound to; none: they run where the system lets them
};

// Nodes that the machine need not have, all of one size. Their threads are bound to nothing.
std::vector<NumaNode> made_up_nodes(uint32_t num_nodes);

// The nodes of the threads [first, first + count) of num_all, which are divided among the nodes in order and
// in proportion to the cores. A node that has none of these threads is left out. Threads of a single node are
// bound to nothing.
std::vector<NodeThreads> divide_threads(std::span<const NumaNode> nodes, uint32_t first, uint32_t count,
                                        uint32_t num_all);

}  // namespace runnel
