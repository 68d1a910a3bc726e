// How the values of a tensor lie in a file that does not have them as GGUF does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runner/formats/tensor.h"

namespace runnel {

struct Arrangement {
  enum Kind : uint8_t {
    kSame,
    kTransposed,   // column after column, as GPT-2's layers save their matrices
    kHalvedHeads,  // rows of a head: the first of each rotated pair, then the second of each
    kLessOne,      // gains of a norm, less the 1 that is added to them: for WeightLoader::vector
  };
  Kind kind = kSame;
  uint64_t head_rows = 0;  // of kHalvedHeads: even, and divides the rows
};

// The values in GGUF's order, row after row; of kSame and kLessOne a copy as it is. tensor: of floats, with
// the shape that GGUF gives it.
std::vector<std::byte> arranged(const TensorView& tensor, const Arrangement& arrangement);

}  // namespace runnel
