#include "runner/system/numa_threads.h"

#include <algorithm>

#include "runner/check.h"

namespace runnel {

std::vector<NumaNode> made_up_nodes(uint32_t num_nodes) {
  return std::vector<NumaNode>(num_nodes, NumaNode{.num_cores = 1, .processors = {}});
}

std::vector<NodeThreads> divide_threads(std::span<const NumaNode> nodes, uint32_t first, uint32_t count,
                                        uint32_t num_all) {
  CHECK(first + count <= num_all);
  uint64_t num_cores = 0;
  for (const NumaNode& node : nodes) num_cores += node.num_cores;
  std::vector<NodeThreads> divided;
  uint64_t last_core = 0;
  uint32_t begin = first;
  for (const NumaNode& node : nodes) {
    last_core += node.num_cores;
    // Thread i runs on core i * num_cores / num_all of all nodes.
    const uint64_t all_end = (last_core * num_all + num_cores - 1) / num_cores;
    const auto end = static_cast<uint32_t>(std::clamp<uint64_t>(all_end, begin, first + count));
    if (end > begin)
      divided.push_back({end - begin, nodes.size() == 1 ? std::vector<uint32_t>() : node.processors});
    begin = end;
  }
  return divided;
}

}  // namespace runnel
