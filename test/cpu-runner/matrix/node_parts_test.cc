#include "cpu-runner/matrix/node_parts.h"

#include "test/unit_test.h"

namespace runnel {
namespace {

TEST_CASE("each thing belongs to one node, the parts follow each other and differ by one at most") {
  for (uint32_t num_nodes = 1; num_nodes <= 8; ++num_nodes) {
    for (const uint32_t count : {1u, 2u, 3u, 7u, 8u, 9u, 64u, 1001u, 1u << 25}) {
      CAPTURE(num_nodes);
      CAPTURE(count);
      uint32_t end = 0;
      for (uint32_t node = 0; node < num_nodes; ++node) {
        const NodePart part = part_of_node(count, node, num_nodes);
        CHECK(part.begin == end);
        end = part.end;
        const uint32_t size = part.end - part.begin;
        CHECK(size >= count / num_nodes);
        CHECK(size <= count / num_nodes + 1);
        if (size == 0) continue;
        CHECK(node_of(part.begin, count, num_nodes) == node);
        CHECK(node_of(part.end - 1, count, num_nodes) == node);
      }
      CHECK(end == count);
    }
  }
}

}  // namespace
}  // namespace runnel
