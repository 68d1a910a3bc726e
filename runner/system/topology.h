// The processors that this process may use, by NUMA nodes and cores, as the kernel tells them below /sys. A
// container may hide them: then there is one node, and each processor is a core.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace runnel {

struct NumaNode {
  uint32_t num_cores;
  // Numbers, ascending; several to a core where the cores have several threads. None: they are not known.
  std::vector<uint32_t> processors;
};

// Nodes without processors that this process may use are not among them, nor those whose memory it may not
// have: their processors count as another node's.
struct Topology {
  std::vector<NumaNode> nodes;

  uint32_t num_cores() const;
};

// processors: those that may be used, ascending. root: the folder that contains /sys and /proc; tests pass a
// folder of their own.
Topology read_topology(std::span<const uint32_t> processors, const std::string& root = "");
// Of the calling thread's processors. Must be called before the sandbox, which forbids opening the files.
Topology read_topology();

}  // namespace runnel
