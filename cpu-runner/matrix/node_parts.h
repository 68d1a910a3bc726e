// Which NUMA node has what: of things in a row, such as the tiles of a matrix, each node has a part, and the
// parts are in the order of the nodes. A matrix of several sections, which are the experts of a layer, is
// divided in each section.
#pragma once

#include <cstdint>

namespace runnel {

constexpr uint32_t node_of(uint64_t index, uint64_t count, uint32_t num_nodes) {
  return static_cast<uint32_t>(index * num_nodes / count);
}

struct NodePart {
  uint32_t begin;
  uint32_t end;
};

// Those of `count` things of which node_of() is this node.
constexpr NodePart part_of_node(uint32_t count, uint32_t node, uint32_t num_nodes) {
  const auto begin_of = [&](uint64_t of) {
    return static_cast<uint32_t>((of * count + num_nodes - 1) / num_nodes);
  };
  return {begin_of(node), begin_of(uint64_t{node} + 1)};
}

}  // namespace runnel
