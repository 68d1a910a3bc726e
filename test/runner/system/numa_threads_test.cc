#include "runner/system/numa_threads.h"

#include "test/unit_test.h"

namespace runnel {
namespace {

std::vector<uint32_t> counts_of(std::span<const NodeThreads> nodes) {
  std::vector<uint32_t> counts;
  for (const NodeThreads& node : nodes) counts.push_back(node.num_threads);
  return counts;
}

using Counts = std::vector<uint32_t>;

}  // namespace

TEST_CASE("numa threads: they are divided in proportion to cores, in the order of the nodes") {
  const std::vector<NumaNode> even = {{4, {0, 1, 2, 3}}, {4, {4, 5, 6, 7}}};
  CHECK(counts_of(divide_threads(even, 0, 8, 8)) == Counts{4, 4});
  CHECK(counts_of(divide_threads(even, 0, 5, 5)) == Counts{3, 2});
  CHECK(counts_of(divide_threads(even, 0, 16, 16)) == Counts{8, 8});
  CHECK(counts_of(divide_threads(even, 0, 1, 1)) == Counts{1});
  const std::vector<NumaNode> uneven = {{1, {9}}, {6, {10, 11, 12, 13, 14, 15}}, {1, {20}}};
  CHECK(counts_of(divide_threads(uneven, 0, 8, 8)) == Counts{1, 6, 1});
  CHECK(counts_of(divide_threads(uneven, 0, 4, 4)) == Counts{1, 3});
  const std::vector<NodeThreads> two = divide_threads(uneven, 0, 2, 2);
  CHECK(counts_of(two) == Counts{1, 1});
  CHECK(two[1].processors == std::vector<uint32_t>{10, 11, 12, 13, 14, 15});
}

TEST_CASE("numa threads: each rank has its own, on as few nodes as possible") {
  const std::vector<NumaNode> nodes = {{4, {0, 1, 2, 3}}, {4, {4, 5, 6, 7}}};
  const std::vector<NodeThreads> first = divide_threads(nodes, 0, 4, 8);
  const std::vector<NodeThreads> second = divide_threads(nodes, 4, 4, 8);
  CHECK(counts_of(first) == Counts{4});
  CHECK(first[0].processors == nodes[0].processors);
  CHECK(counts_of(second) == Counts{4});
  CHECK(second[0].processors == nodes[1].processors);
  CHECK(counts_of(divide_threads(nodes, 3, 3, 8)) == Counts{1, 2});
  for (uint32_t num_all = 1; num_all < 40; ++num_all) {
    for (uint32_t first_count = 0; first_count <= num_all; ++first_count) {
      uint32_t sum = 0;
      for (const auto& part : {divide_threads(nodes, 0, first_count, num_all),
                               divide_threads(nodes, first_count, num_all - first_count, num_all)})
        for (const uint32_t count : counts_of(part)) sum += count;
      REQUIRE(sum == num_all);
    }
  }
}

TEST_CASE("numa threads: those of a single node or of nodes that are made up are bound to nothing") {
  const std::vector<NodeThreads> single = divide_threads(std::vector<NumaNode>{{4, {0, 1, 2, 3}}}, 0, 3, 3);
  CHECK(counts_of(single) == Counts{3});
  CHECK(single[0].processors.empty());
  const std::vector<NodeThreads> made_up = divide_threads(made_up_nodes(4), 0, 7, 7);
  CHECK(counts_of(made_up) == Counts{2, 2, 2, 1});
  for (const NodeThreads& node : made_up) CHECK(node.processors.empty());
  CHECK(counts_of(divide_threads(made_up_nodes(4), 0, 2, 2)) == Counts{1, 1});
  CHECK(divide_threads({}, 0, 3, 3).empty());
  CHECK(divide_threads(made_up_nodes(2), 0, 0, 0).empty());
}

}  // namespace runnel
