// A loop of dot instructions for each instruction set that kernels know.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace runnel {

struct DotLoop {
  std::string_view isa;
  // Whether this processor has it.
  bool is_there;
  // Executes the loop once. What it adds up is wrong if it executed any other number of instructions than
  // counted.
  uint64_t (*run)();
  uint64_t expected_sum;
  // Products and sums of one run: a dot instruction is so many of each as it takes bytes of one side.
  uint64_t operations;
};

// Of all instruction sets of this architecture, the widest last; none where none is known.
std::vector<DotLoop> dot_loops();

}  // namespace runnel
